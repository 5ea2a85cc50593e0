"""One agent on a node: two would take each other's names for as long as both run."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

NAME = "agent.lock"


class NodeLock:
    """A lock on a file of the node, which goes with the process that holds it.

    Args:
        folder: of the agent, the same for all agents of the node.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._file: int | None = None

    def take(self) -> bool:
        """Return whether no other process holds it; where it cannot be made, nobody is kept waiting."""
        if self._file is not None:
            return True
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            return not isinstance(error, BlockingIOError)
        self._file = file
        return True

    def release(self) -> None:
        """Let the next one have it."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
