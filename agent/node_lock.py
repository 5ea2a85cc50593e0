"""Makes sure that only one agent runs on a node: two would keep replacing each other's registration."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from agent.private_folder import NAME as PRIVATE
from agent.private_folder import open_own, private_folder

NAME = "agent.lock"


class NodeLock:
    """A lock on a file of the node, which ends with the process that holds it.

    Only the agents' user can open the file, because any process that opens a file can lock it.
    """

    def __init__(self, state_dir: Path, name: str = NAME) -> None:
        self.path = state_dir / PRIVATE / name
        self._state_dir = state_dir
        self._file: int | None = None

    def take(self) -> bool:
        """Return whether no other process holds it; also True if the file cannot be created.

        Raises:
            UntrustedError: another user may hold it.
        """
        if self._file is not None:
            return True
        try:
            private_folder(self._state_dir)
            file = open_own(self.path, os.O_RDWR | os.O_CREAT)
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
        """Release the lock."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
