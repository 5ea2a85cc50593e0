"""Slices of pods that carry an index but have no node yet, nor the promise of one."""

from __future__ import annotations

from collections.abc import Collection

from ledger.accounts import Claim

_Required = tuple[str, ...] | None


class Backlog:
    """Waiting slices by index (None in pooled mode) and by the GPU memory that the pods require."""

    def __init__(self) -> None:
        self._slices: dict[int | None, dict[_Required, int]] = {}
        self.claims: dict[str, Claim] = {}

    def add(self, key: str, claim: Claim) -> None:
        """Enter a waiting claim; the inverse of `remove`."""
        self.claims[key] = claim
        for index, slices in _waiting(claim):
            by_memory = self._slices.setdefault(index, {})
            by_memory[claim.memory_values] = by_memory.get(claim.memory_values, 0) + slices

    def remove(self, key: str) -> None:
        """Strike a waiting claim out; the inverse of `add`."""
        claim = self.claims.pop(key)
        for index, slices in _waiting(claim):
            by_memory = self._slices[index]
            by_memory[claim.memory_values] -= slices
            if not by_memory[claim.memory_values]:
                del by_memory[claim.memory_values]
            if not by_memory:
                del self._slices[index]

    def slices(self, index: int | None, memory_values: Collection[str]) -> int:
        """Slices that wait for an index of GPUs, where pods may require any of those values."""
        waiting = 0
        for required, slices in self._slices.get(index, {}).items():
            if required is None or not set(required).isdisjoint(memory_values):
                waiting += slices
        return waiting


def _waiting(claim: Claim) -> list[tuple[int | None, int]]:
    waiting: list[tuple[int | None, int]] = list(claim.gpus)
    if claim.pooled:
        waiting.append((None, claim.pooled))
    return waiting
