"""The ID of the node's current boot."""

from __future__ import annotations

import contextlib
from pathlib import Path

BOOT_ID = Path("sys/kernel/random/boot_id")
"""Path in /proc; every container sees its node's."""


def boot_id(proc: Path) -> str:
    """Return the ID of the node's boot; empty if the kernel does not state it."""
    with contextlib.suppress(OSError):
        return (proc / BOOT_ID).read_text().strip()
    return ""
