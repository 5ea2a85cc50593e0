"""The claims on a node that has very many, sorted so that the largest are found without a walk over all.

Pods that set `nodeName` are bound whatever the node has free; if its kubelet is dead, nothing rejects them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Protocol

CROWDED = 256
"""A node's claims are sorted when there are more than this, until there are half as many."""
Key = tuple[str, ...]
_Entry = tuple[int, Key]
"""Slices, negated so that the largest sort first, and the claim's key."""


class Sharing(Protocol):
    """The GPU slices of a claim (ledger/accounts.py)."""

    @property
    def gpus(self) -> tuple[tuple[int, int], ...]: ...  # noqa: D102 - the words are those of Claim
    @property
    def pooled(self) -> int: ...  # noqa: D102


class Crowd:
    """Claims by GPU index (None: the pool), the largest first."""

    __slots__ = ("_by_index",)

    def __init__(self, claims: Mapping[Key, Sharing]) -> None:
        found: dict[int | None, list[_Entry]] = {}
        for key, claim in claims.items():
            for index, slices in parts(claim):
                found.setdefault(index, []).append((-slices, key))
        for entries in found.values():
            entries.sort()
        self._by_index = found

    def add(self, key: Key, claim: Sharing) -> None:
        """Add a claim; the inverse of `remove`."""
        for index, slices in parts(claim):
            insort(self._by_index.setdefault(index, []), (-slices, key))

    def remove(self, key: Key, claim: Sharing) -> None:
        """Remove a claim; the inverse of `add`."""
        for index, slices in parts(claim):
            entries = self._by_index[index]
            del entries[bisect_left(entries, (-slices, key))]
            if not entries:
                del self._by_index[index]

    def first(self, index: int | None, count: int) -> list[Key]:
        """Return the keys of the claims with the largest parts of a GPU, at most `count`."""
        return [key for _, key in self._by_index.get(index, ())[:count]]

    def count(self, index: int | None) -> int:
        """Return how many claims have a part of a GPU."""
        return len(self._by_index.get(index, ()))


def parts(claim: Sharing) -> list[tuple[int | None, int]]:
    """Return (index, slices) of each GPU that a claim has a part of; index None is the pool."""
    found: list[tuple[int | None, int]] = [part for part in claim.gpus if part[1]]
    if claim.pooled:
        found.append((None, claim.pooled))
    return found
