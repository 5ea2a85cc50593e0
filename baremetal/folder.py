"""The folder of a machine's tasks, which one user owns, and in which one runner works."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from agent.private_folder import UntrustedError, open_own, private_folder

VARIABLE = "FRACTION_INJECTOR_STATE"
"""Names the folder where the command line does not."""
LOCK = "runner.lock"
TASKS = "tasks"
"""Folder of the attempts."""


class FolderError(Exception):
    """The folder cannot be used; the text says why."""


def state_folder(given: Path | None) -> Path:
    """Return the folder that the command line names, the environment, or the usual one of this user."""
    if given is None and (named := os.environ.get(VARIABLE)):
        given = Path(named)
    if given is not None:
        return given.absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/fraction-injector")
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "fraction-injector"


def own_folder(state: Path) -> Path:
    """Return the part of it that only this user can open: who writes there has commands run as this user.

    Raises:
        FolderError: it cannot be made, or is another user's.
    """
    try:
        return private_folder(state)
    except (UntrustedError, OSError) as error:
        raise FolderError(f"{state} cannot be used: {error}; name another folder with --state") from error


def take_lock(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of the runner; None if another runner holds it.

    Raises:
        FolderError: it cannot be made.
    """
    try:
        file = open_own(folder / LOCK, os.O_RDWR | os.O_CREAT)
    except (UntrustedError, OSError) as error:
        raise FolderError(f"{folder / LOCK} cannot be used: {error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
