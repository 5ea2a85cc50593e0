"""Names for what we add: valid, at most 63 characters, and free in the pod."""

from __future__ import annotations

import hashlib

MAX_NAME = 63
"""Characters of a DNS label, which volumes and containers are named by."""
_DIGITS = 8
"""Of the digest in a shortened name."""


class FreeNames:
    """Gives out names that nobody has, and goes on from the last number that it gave."""

    def __init__(self, taken: set[str]) -> None:
        """Start with the names that the pod brings; what is given out is added to them."""
        self._taken = taken
        self._numbers: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """Return `wanted`, shortened to fit, numbered from 2 if it is taken; from then on it is."""
        # Once for all numbers: the name of a container, which the pod's author writes, may be megabytes long.
        is_short = len(wanted) <= MAX_NAME - _DIGITS
        digest = "" if is_short else hashlib.sha256(wanted.encode()).hexdigest()[:_DIGITS]
        number = self._numbers.get(wanted, 1)
        while (name := _numbered(wanted, digest, number)) in self._taken:
            number += 1
        self._numbers[wanted] = number
        self._taken.add(name)
        return name


def _numbered(wanted: str, digest: str, number: int) -> str:
    suffix = "" if number == 1 else f"-{number}"
    length = MAX_NAME - len(suffix)
    fitted = wanted if len(wanted) <= length else f"{wanted[: length - 1 - _DIGITS]}-{digest}"
    return fitted + suffix
