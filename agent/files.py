"""Files that others read at any moment: runtimes, and containers that have them mounted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

UNREADABLE = (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading JSON from a file raises where something else stands there."""
Files = frozenset[tuple[str, int, int]]
"""What tells one state of folders from the next: name, inode and time of each file."""


def write_whole(path: Path, content: bytes) -> None:
    """Make a file say something, all at once, for everybody to read; one that says it already is not touched.

    Whoever has the file of before open or mounted keeps it as it was.

    Raises:
        OSError: it cannot be read or written.
    """
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # No reader of .json, .yaml or of a whole name takes it for the file.
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.write_bytes(content)
        fresh.chmod(0o644)
        fresh.replace(path)
    except OSError:
        # Half of it would take what a full disk has left.
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def stamps_of(folders: Iterable[str], counts: Callable[[str], bool] = lambda _: True) -> Files:
    """Return what tells one state of folders from the next, also where a ConfigMap swaps a link.

    Args:
        folders: those that cannot be read are as if they were empty, and files as if they were not there.
        counts: whether a file does, by its name.
    """
    stamps = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            for path in Path(folder).iterdir():
                if counts(path.name):
                    with contextlib.suppress(OSError):  # a link that leads nowhere
                        status = path.stat()
                        stamps.add((str(path), status.st_ino, status.st_mtime_ns))
    return frozenset(stamps)
