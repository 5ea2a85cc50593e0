"""Runs work that needs large libraries in short processes, so that the agent stays small."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import weakref


class ChildError(Exception):
    """The process failed; the text is its error message."""


class Child:
    """A module of ours that starts now in a process of its own, and prints its result.

    It is killed when its result is no longer needed.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 our own module
            [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._unwanted = weakref.finalize(self, _end, self._process)

    async def result(self) -> bytes:
        """Return what it printed, once it has ended.

        Raises:
            ChildError: it ended with an error.
        """
        self._unwanted.detach()
        reading = asyncio.get_running_loop().run_in_executor(None, self._process.communicate)
        try:
            # A cancelled call that no thread took yet would never run: nobody would wait for the process.
            printed, said = await asyncio.shield(reading)
        except asyncio.CancelledError:
            self._process.kill()  # the thread reads what is left and ends
            raise
        if self._process.returncode != 0:
            text = said.decode(errors="replace").strip()
            raise ChildError(text or f"exit code {self._process.returncode}")
        return printed


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()
