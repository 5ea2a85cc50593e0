"""What pods take or claim that have neither a node nor an expected one."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

from ledger.accounts import Claim, ClaimKey, add_amounts
from modes.units import Unit

_Required = tuple[str, ...] | None
_Key = TypeVar("_Key", bound=Hashable)


class PendingPods:
    """Pending slices by the GPU memory that pods require, and by unit."""

    def __init__(self) -> None:
        self._slices: dict[_Required, dict[Unit, int]] = {}
        self.claims: dict[ClaimKey, Claim] = {}
        """In the order of their arrival. Those of pods that claim cards from a DRA driver take no slices."""

    def add(self, key: ClaimKey, claim: Claim) -> None:
        """Add a pending claim; the inverse of `remove`."""
        self.claims[key] = claim
        _count(self._slices, claim.memory_values, claim, 1)

    def remove(self, key: ClaimKey) -> None:
        """Remove a claim that is no longer pending; the inverse of `add`."""
        claim = self.claims.pop(key)
        _count(self._slices, claim.memory_values, claim, -1)

    def total(self) -> int:
        """All pending slices."""
        return sum([sum(by_unit.values()) for by_unit in self._slices.values()])

    def slices(self, memory_values: Collection[str]) -> Mapping[Unit, int]:
        """Slices by unit that wait for GPUs with any of these memory values. Do not change the mapping."""
        accepted = frozenset(memory_values)
        found = [
            by_unit
            for required, by_unit in self._slices.items()
            if required is None or not accepted.isdisjoint(required)
        ]
        if len(found) <= 1:
            return found[0] if found else {}
        waiting: dict[Unit, int] = {}
        for by_unit in found:
            for unit, slices in by_unit.items():
                waiting[unit] = waiting.get(unit, 0) + slices
        return waiting


def _count(tables: dict[_Key, dict[Unit, int]], key: _Key, claim: Claim, sign: int) -> None:
    """Count a claim in the table of `key`, and remove the table if it becomes empty."""
    by_unit = tables.get(key)
    if by_unit is None:
        by_unit = tables[key] = {}
    add_amounts(by_unit, claim, sign)
    if not by_unit:
        del tables[key]
