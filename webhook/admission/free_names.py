"""Names for what we add: valid, at most 63 characters, and free in the pod."""

from __future__ import annotations

import hashlib

MAX_NAME = 63
"""Maximum characters of a DNS label, as names of volumes and containers are."""
_DIGITS = 8
"""Digits of the digest in a shortened name."""


def take_name(wanted: str, taken: set[str]) -> str:
    """Return `wanted`, shortened to fit, and numbered from 2 if it is taken; add it to `taken`."""
    # Digest only once for all numbers: a container's name may have megabytes.
    is_short = len(wanted) <= MAX_NAME - _DIGITS
    digest = "" if is_short else hashlib.sha256(wanted.encode()).hexdigest()[:_DIGITS]
    number = 1
    while (name := _numbered(wanted, digest, number)) in taken:
        number += 1
    taken.add(name)
    return name


def _numbered(wanted: str, digest: str, number: int) -> str:
    suffix = "" if number == 1 else f"-{number}"
    length = MAX_NAME - len(suffix)
    fitted = wanted if len(wanted) <= length else f"{wanted[: length - 1 - _DIGITS]}-{digest}"
    return fitted + suffix
