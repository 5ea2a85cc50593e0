"""The claims on a node that has very many, sorted so that the largest are found without a walk over all.

Pods that set `nodeName` are bound whatever the node has free; if its kubelet is dead, nothing rejects them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Protocol

from modes.units import Amounts, Unit

CROWDED = 256
"""A node's claims are sorted when there are more than this, until there are half as many."""
Key = tuple[str, ...]
_Entry = tuple[int, Key]
"""Slices, negated so that the largest sort first, and the claim's key."""


class Sharing(Protocol):
    """The part of a claim (ledger/accounts.py) that a crowd reads: the amounts that it takes."""

    @property
    def takes(self) -> Amounts: ...  # noqa: D102 - the words are those of Claim


class Crowd:
    """Claims by unit, the largest first."""

    __slots__ = ("_by_unit",)

    def __init__(self, claims: Mapping[Key, Sharing]) -> None:
        found: dict[Unit, list[_Entry]] = {}
        for key, claim in claims.items():
            for unit, amount in _amounts(claim):
                found.setdefault(unit, []).append((-amount, key))
        for entries in found.values():
            entries.sort()
        self._by_unit = found

    def add(self, key: Key, claim: Sharing) -> None:
        """Add a claim; the inverse of `remove`."""
        for unit, amount in _amounts(claim):
            insort(self._by_unit.setdefault(unit, []), (-amount, key))

    def remove(self, key: Key, claim: Sharing) -> None:
        """Remove a claim; the inverse of `add`."""
        for unit, amount in _amounts(claim):
            entries = self._by_unit[unit]
            del entries[bisect_left(entries, (-amount, key))]
            if not entries:
                del self._by_unit[unit]

    def first(self, unit: Unit, count: int) -> list[Key]:
        """Return the keys of the claims that take most of a unit, at most `count`."""
        return [key for _, key in self._by_unit.get(unit, ())[:count]]

    def count(self, unit: Unit) -> int:
        """Return how many claims take some of a unit."""
        return len(self._by_unit.get(unit, ()))


def _amounts(claim: Sharing) -> list[tuple[Unit, int]]:
    return [each for each in claim.takes if each[1]]
