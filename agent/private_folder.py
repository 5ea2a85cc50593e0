"""The agent's own folder on its node, which no other user can read or write."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

NAME = "private"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UntrustedError(Exception):
    """Another user may have written files that the agent trusts; the text says what to do."""


def private_folder(state_dir: Path) -> Path:
    """Return the folder, which only this user can open; create it, or restrict its mode, if necessary.

    Args:
        state_dir: the agent's folder, which other users may read.

    Raises:
        UntrustedError: one of the two belongs to another user, or is a link.
        OSError: it cannot be created.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    _shut(state_dir)
    folder = state_dir / NAME
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise UntrustedError(f"{folder} is not a folder of the agent's own: remove it")
    if stat.S_IMODE(found.st_mode) != 0o700:  # noqa: PLR2004 a mode
        folder.chmod(0o700)
    return folder


def open_own(path: Path, flags: int) -> int:
    """Open a file of the private folder, and return its descriptor; a new file is only for this user.

    Raises:
        UntrustedError: it is a link, belongs to another user, or is not a regular file.
        OSError: it cannot be opened.
    """
    try:
        file = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_own(path) from error
        raise
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(file)
        raise _not_own(path)
    return file


def read_own(path: Path) -> bytes:
    """Return the content of a file of the private folder.

    Raises:
        UntrustedError: it is a link, belongs to another user, or is not a regular file.
        OSError: it cannot be read.
    """
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        return file.read()


def _not_own(path: Path) -> UntrustedError:
    return UntrustedError(f"{path} is not a file of the agent's own: remove it")


def _shut(state_dir: Path) -> None:
    """Prevent other users from replacing the private folder."""
    found = state_dir.stat()
    is_own = found.st_uid == os.geteuid()
    if is_own and found.st_mode & _OTHERS_WRITE:
        state_dir.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
    elif not is_own and (found.st_uid != 0 or found.st_mode & _OTHERS_WRITE):
        raise UntrustedError(f"{state_dir} can be written by others: make it root's, with mode 755")
