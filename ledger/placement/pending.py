"""Slices of pods that have an index, but neither a node nor an expected one."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

from ledger.accounts import Claim, ClaimKey

_Required = tuple[str, ...] | None
_Key = TypeVar("_Key", bound=Hashable)


class PendingPods:
    """Pending slices by the GPU memory that pods require, and by index (None in pooled mode)."""

    def __init__(self) -> None:
        self._slices: dict[_Required, dict[int | None, int]] = {}
        self.claims: dict[ClaimKey, Claim] = {}
        self._by_namespace: dict[str, dict[int | None, int]] = {}
        self.stale: dict[int | None, int] = {}
        """Slices by index of reservations that are too old to count."""

    def add(self, key: ClaimKey, claim: Claim) -> None:
        """Add a pending claim; the inverse of `remove`."""
        self.claims[key] = claim
        _count(self._slices, claim.memory_values, claim, 1)
        _count(self._by_namespace, claim.namespace, claim, 1)

    def remove(self, key: ClaimKey) -> None:
        """Remove a claim that is no longer pending; the inverse of `add`."""
        claim = self.claims.pop(key)
        _count(self._slices, claim.memory_values, claim, -1)
        _count(self._by_namespace, claim.namespace, claim, -1)

    def add_stale(self, claim: Claim, sign: int = 1) -> None:
        """Add a reservation that no longer counts; a sign of -1 removes it."""
        _add(self.stale, claim, sign)

    def of_namespace(self, namespace: str) -> Mapping[int | None, int]:
        """Slices by index that claims of one namespace wait for."""
        return self._by_namespace.get(namespace, {})

    def total(self) -> int:
        """All pending slices."""
        return sum([sum(by_index.values()) for by_index in self._slices.values()])

    def slices(self, memory_values: Collection[str]) -> dict[int | None, int]:
        """Slices by index that wait for GPUs with any of these memory values."""
        waiting: dict[int | None, int] = {}
        accepted = frozenset(memory_values)
        for required, by_index in self._slices.items():
            if required is None or not accepted.isdisjoint(required):
                for index, slices in by_index.items():
                    waiting[index] = waiting.get(index, 0) + slices
        return waiting


def _count(tables: dict[_Key, dict[int | None, int]], key: _Key, claim: Claim, sign: int) -> None:
    """Count a claim in the table of `key`, and remove the table if it becomes empty."""
    by_index = tables.setdefault(key, {})
    _add(by_index, claim, sign)
    if not by_index:
        del tables[key]


def _add(by_index: dict[int | None, int], claim: Claim, sign: int) -> None:
    """Count up or down, and remove a zero."""
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
