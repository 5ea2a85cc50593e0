"""GPU memory as users and admins write it: whole Mi or Gi, and whole M or G where that is allowed."""

from __future__ import annotations

import re

MAX_MIB = 100_000_000
"""Far more than any GPU has."""
EXAMPLES = '"512Mi" or "4Gi"'
_MIB = 2**20
_BYTES = {"Mi": _MIB, "Gi": 2**30, "M": 10**6, "G": 10**9}
_BINARY = re.compile(r"([1-9][0-9]{0,8})(Mi|Gi)", re.ASCII)
_ANY = re.compile(r"([1-9][0-9]{0,8})(Mi|Gi|M|G)", re.ASCII)


def memory_mib(text: str, *, decimal: bool = False) -> int | None:
    """Return the MiB that a text such as "4Gi" means; None for any other text, and for more than `MAX_MIB`.

    With `decimal`, "4G" is valid too and rounded down to 3814 MiB. Less than one MiB is None.
    """
    match = (_ANY if decimal else _BINARY).fullmatch(text)
    if match is None:
        return None
    mib = int(match[1]) * _BYTES[match[2]] // _MIB
    return mib if 0 < mib <= MAX_MIB else None


def memory_text(mib: int) -> str:
    """Return MiB as such a text, in Gi if they are whole Gi."""
    return f"{mib}Mi" if mib % 1024 else f"{mib // 1024}Gi"


def memory_rule(text: str, *, decimal: bool) -> str:
    """Return why a text is not an amount of memory, and what to write: for `4G` its amount in Mi."""
    if decimal:
        return 'is not a whole number of Mi, Gi, M or G: use a value such as "4Gi" or "4G"'
    meant = memory_mib(text, decimal=True)
    examples = EXAMPLES if meant is None else f'"{memory_text(meant)}"'
    return f"is not a whole number of Mi or Gi: use a value such as {examples}"
