"""Slices of pods that carry an index but have no node yet, nor the promise of one."""

from __future__ import annotations

from collections.abc import Collection

from ledger.accounts import Claim, ClaimKey

_Required = tuple[str, ...] | None


class PendingPods:
    """Pending slices by the GPU memory that the pods require and by index (None in pooled mode)."""

    def __init__(self) -> None:
        self._slices: dict[_Required, dict[int | None, int]] = {}
        self.claims: dict[ClaimKey, Claim] = {}

    def add(self, key: ClaimKey, claim: Claim) -> None:
        """Add a pending claim; the inverse of `remove`."""
        self.claims[key] = claim
        by_index = self._slices.setdefault(claim.memory_values, {})
        for index, slices in _waiting(claim):
            by_index[index] = by_index.get(index, 0) + slices

    def remove(self, key: ClaimKey) -> None:
        """Remove a claim that is pending no more; the inverse of `add`."""
        claim = self.claims.pop(key)
        by_index = self._slices[claim.memory_values]
        for index, slices in _waiting(claim):
            by_index[index] -= slices
            if not by_index[index]:
                del by_index[index]
        if not by_index:
            del self._slices[claim.memory_values]

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


def _waiting(claim: Claim) -> list[tuple[int | None, int]]:
    waiting: list[tuple[int | None, int]] = list(claim.gpus)
    if claim.pooled:
        waiting.append((None, claim.pooled))
    return waiting
