"""Which boot of the node this is."""

from __future__ import annotations

import contextlib
from pathlib import Path

BOOT_ID = Path("sys/kernel/random/boot_id")
"""In /proc; every container sees that of its node."""


def boot_id(proc: Path) -> str:
    """Return what tells one boot of the node from the next; empty where the kernel does not say."""
    with contextlib.suppress(OSError):
        return (proc / BOOT_ID).read_text().strip()
    return ""
