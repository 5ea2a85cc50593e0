"""Files that others read at any moment: runtimes, and containers that have them mounted."""

from __future__ import annotations

from pathlib import Path

import msgspec

UNREADABLE = (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading JSON from a file raises where something else stands there."""


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
    fresh.write_bytes(content)
    fresh.chmod(0o644)
    fresh.replace(path)
