"""GPU memory as users and admins write it: whole Mi or Gi, and nothing else."""

from __future__ import annotations

import re

MAX_MIB = 100_000_000
"""More than any GPU has, by far."""
EXAMPLES = '"512Mi" or "4Gi"'
_TEXT = re.compile(r"([1-9][0-9]{0,8})(Mi|Gi)", re.ASCII)


def memory_mib(text: str) -> int | None:
    """Return the MiB that a text such as "4Gi" means; None for any other, and for more than `MAX_MIB`."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    mib = int(match[1]) * (1024 if match[2] == "Gi" else 1)
    return mib if mib <= MAX_MIB else None


def memory_text(mib: int) -> str:
    """Return MiB as such a text, in Gi where they are whole ones."""
    return f"{mib}Mi" if mib % 1024 else f"{mib // 1024}Gi"
