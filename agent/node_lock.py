"""One agent on a node: two would take each other's names for as long as both run."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from agent.private_folder import NAME as PRIVATE
from agent.private_folder import open_own, private_folder

NAME = "agent.lock"


class NodeLock:
    """A lock on a file of the node, which goes with the process that holds it.

    The file lies where only the agents' user can open it: whoever can open a file can lock it.

    Args:
        state_dir: of the agent, the same for all agents of the node.
    """

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / PRIVATE / NAME
        self._state_dir = state_dir
        self._file: int | None = None

    def take(self) -> bool:
        """Return whether no other process holds it; where it cannot be made, nobody is kept waiting.

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
        """Let the next one have it."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
