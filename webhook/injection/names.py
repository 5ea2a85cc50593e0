"""Names for what we add: valid, at most 63 characters, and free in the pod."""

from __future__ import annotations

import hashlib
from itertools import count

LONGEST = 63
"""Characters of a DNS label, which volumes and containers are named by."""


def free_name(wanted: str, taken: set[str]) -> str:
    """Give `wanted`, shortened to fit and numbered from 2 if it is taken; the name is taken from then on."""
    if len(wanted) <= LONGEST and wanted not in taken:
        taken.add(wanted)
        return wanted
    for number in count(1):
        suffix = "" if number == 1 else f"-{number}"
        name = _fitted(wanted, LONGEST - len(suffix)) + suffix
        if name not in taken:
            taken.add(name)
            return name
    raise AssertionError  # count() has no end


def _fitted(name: str, length: int) -> str:
    if len(name) <= length:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: length - 9]}-{digest}"
