"""Runs work that needs large libraries in short processes, so that the agent stays small."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE


class ChildError(Exception):
    """The process failed; the text is its error message."""


async def printed_by(module: str, *arguments: str) -> bytes:
    """Run a module of ours in a process of its own, and return what it prints; it ends when cancelled.

    Raises:
        ChildError: it ended with an error.
        OSError: no process can be started.
    """
    command = sys.executable, "-m", module, *arguments
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    try:
        printed, said = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        text = said.decode(errors="replace").strip()
        raise ChildError(text or f"exit code {process.returncode}")
    return printed
