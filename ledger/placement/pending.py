"""Slices of pods that carry an index but have no node yet, nor the promise of one."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

from ledger.accounts import Claim, ClaimKey

_Required = tuple[str, ...] | None
_Key = TypeVar("_Key", bound=Hashable)


class PendingPods:
    """Pending slices by the GPU memory that the pods require and by index (None in pooled mode)."""

    def __init__(self) -> None:
        self._slices: dict[_Required, dict[int | None, int]] = {}
        self.claims: dict[ClaimKey, Claim] = {}
        self._by_namespace: dict[str, dict[int | None, int]] = {}
        self.stale: dict[int | None, int] = {}
        """Slices by index of reservations that are too old to be counted."""

    def add(self, key: ClaimKey, claim: Claim) -> None:
        """Add a pending claim; the inverse of `remove`."""
        self.claims[key] = claim
        _count(self._slices, claim.memory_values, claim, 1)
        _count(self._by_namespace, claim.namespace, claim, 1)

    def remove(self, key: ClaimKey) -> None:
        """Remove a claim that is pending no more; the inverse of `add`."""
        claim = self.claims.pop(key)
        _count(self._slices, claim.memory_values, claim, -1)
        _count(self._by_namespace, claim.namespace, claim, -1)

    def add_stale(self, claim: Claim, sign: int = 1) -> None:
        """Note a reservation that is not counted any more, or with a sign of -1 forget it."""
        _add(self.stale, claim, sign)

    def of_namespace(self, namespace: str) -> Mapping[int | None, int]:
        """Slices by index for which claims of one namespace wait."""
        return self._by_namespace.get(namespace, {})

    def total(self) -> int:
        """All pending slices."""
        return sum([sum(by_index.values()) for by_index in self._slices.values()])

    def slices(self, memory_values: Collection[str]) -> dict[int | None, int]:
        """Slices that wait by index of GPUs, where pods may require any of those values."""
        waiting: dict[int | None, int] = {}
        accepted = frozenset(memory_values)
        for required, by_index in self._slices.items():
            if required is None or not accepted.isdisjoint(required):
                for index, slices in by_index.items():
                    waiting[index] = waiting.get(index, 0) + slices
        return waiting


def _count(tables: dict[_Key, dict[int | None, int]], key: _Key, claim: Claim, sign: int) -> None:
    """Count in one of several tables; an empty one, as of a claim that waits for no slices, is not kept."""
    by_index = tables.setdefault(key, {})
    _add(by_index, claim, sign)
    if not by_index:
        del tables[key]


def _add(by_index: dict[int | None, int], claim: Claim, sign: int) -> None:
    """Count up or down; what comes to nothing is forgotten."""
    for index, slices in _waiting(claim):
        left = by_index.get(index, 0) + sign * slices
        if left:
            by_index[index] = left
        else:
            by_index.pop(index, None)


def _waiting(claim: Claim) -> list[tuple[int | None, int]]:
    waiting: list[tuple[int | None, int]] = list(claim.gpus)
    if claim.pooled:
        waiting.append((None, claim.pooled))
    return waiting
