"""Names for what we add: valid, at most 63 characters, and free in the pod."""

from __future__ import annotations

import hashlib

MAX_NAME = 63
"""Maximum characters of a DNS label, as names of volumes and containers are."""
_DIGITS = 8
"""Digits of the digest in a shortened name."""


class FreeNames:
    """Provides unused names."""

    def __init__(self, taken: set[str]) -> None:
        """Start with the names in the pod; each new name is added to `taken`."""
        self._taken = taken

    def take(self, wanted: str) -> str:
        """Return `wanted`, shortened to fit, numbered from 2 if it is taken; the name is then taken too."""
        # Digest only once for all numbers: a container's name may have megabytes.
        is_short = len(wanted) <= MAX_NAME - _DIGITS
        digest = "" if is_short else hashlib.sha256(wanted.encode()).hexdigest()[:_DIGITS]
        number = 1
        while (name := _numbered(wanted, digest, number)) in self._taken:
            number += 1
        self._taken.add(name)
        return name


def _numbered(wanted: str, digest: str, number: int) -> str:
    suffix = "" if number == 1 else f"-{number}"
    length = MAX_NAME - len(suffix)
    fitted = wanted if len(wanted) <= length else f"{wanted[: length - 1 - _DIGITS]}-{digest}"
    return fitted + suffix
