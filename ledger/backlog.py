"""Slices of pods that carry an index but have no node yet, nor the promise of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ledger.accounts import Claim

_Key = tuple[tuple[str, ...] | None, int | None]


class Backlog:
    """Waiting slices by index (None in pooled mode) and by the GPU memory that the pods require."""

    def __init__(self) -> None:
        self._slices: Counter[_Key] = Counter()
        self.claims: dict[str, Claim] = {}

    def add(self, key: str, claim: Claim) -> None:
        """Enter a waiting claim; the inverse of `remove`."""
        self.claims[key] = claim
        for index, slices in _waiting(claim):
            self._slices[claim.memory_values, index] += slices

    def remove(self, key: str) -> None:
        """Strike a waiting claim out; the inverse of `add`."""
        claim = self.claims.pop(key)
        for index, slices in _waiting(claim):
            self._slices[claim.memory_values, index] -= slices
            if not self._slices[claim.memory_values, index]:
                del self._slices[claim.memory_values, index]

    def slices(self, index: int | None, memory_values: Collection[str]) -> int:
        """Slices that wait for an index of GPUs, where pods may require any of those values."""
        return sum(
            slices
            for (required, waits_for), slices in self._slices.items()
            if waits_for == index and (required is None or any(value in memory_values for value in required))
        )


def _waiting(claim: Claim) -> list[tuple[int | None, int]]:
    waiting: list[tuple[int | None, int]] = list(claim.gpus)
    if claim.pooled:
        waiting.append((None, claim.pooled))
    return waiting
