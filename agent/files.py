"""Files of the node: those that runtimes and containers may read at any moment, and the kernel's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

BOOT_ID = Path("sys/kernel/random/boot_id")
"""Path in /proc; every container sees its node's."""
UNREADABLE = (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of reading JSON from a file that may hold anything."""
Files = frozenset[tuple[str, int, int]]
"""Name, inode and time of each file: they change when the folders change."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file or a link, readable by all users, in one step; a file with this content is not touched.

    Processes that have the previous file open or mounted keep it.

    Raises:
        OSError: it cannot be read or written.
    """
    if is_regular(path) and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not a name that readers of .json or .yaml files pick up.
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.write_bytes(content)
        fresh.chmod(0o644)
        fresh.replace(path)
    except OSError:
        # A partial file would take the rest of a full disk.
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def is_regular(path: Path) -> bool:
    """Return whether a path is a regular file, and no link to one."""
    return path.is_file() and not path.is_symlink()


def stamps_of(folders: Iterable[str], counts: Callable[[str], bool] = lambda _: True) -> Files:
    """Return the state of all readable files in folders, also of the targets of a ConfigMap's links."""
    stamps = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            for path in Path(folder).iterdir():
                if counts(path.name):
                    with contextlib.suppress(OSError):  # a broken link
                        status = path.stat()
                        stamps.add((str(path), status.st_ino, status.st_mtime_ns))
    return frozenset(stamps)


def boot_id(proc: Path) -> str:
    """Return the ID of the node's current boot; empty if the kernel does not state it."""
    with contextlib.suppress(OSError):
        return (proc / BOOT_ID).read_text().strip()
    return ""
