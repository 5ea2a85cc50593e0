"""Work that takes large libraries, done by processes of ours that end, so that an agent stays small."""

from __future__ import annotations

import asyncio
import subprocess
import sys


class ChildError(Exception):
    """The process could not do its work; the text is what it said."""


class Child:
    """A module of ours that runs beside this process from now on, and prints its result."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 our own module
            [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    async def result(self) -> bytes:
        """Return what it printed, once it has ended.

        Raises:
            ChildError: it ended with an error.
        """
        printed, said = await asyncio.to_thread(self._process.communicate)
        if self._process.returncode != 0:
            text = said.decode(errors="replace").strip()
            raise ChildError(text or f"exit code {self._process.returncode}")
        return printed
