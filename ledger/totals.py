"""Sums over all nodes, updated as nodes change, so that reading them is cheap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ledger.accounts import NodeAccount
from modes.units import Gpu


class Totals(NamedTuple):
    """GPUs and slices of one node or of all; MIG instances count as slices."""

    gpus: int = 0
    """GPUs that have a resource name each."""
    capacity: int = 0
    """Slices that can be allocated."""
    used: int = 0
    """Allocated slices, reserved ones included."""
    free: int = 0
    """Slices for new pods: those of cordoned GPUs and of nodes that are not usable do not count."""
    over: int = 0
    """Slices that bound pods hold beyond the capacity."""


_NOTHING = Totals()


class RunningTotals:
    """The sum over all nodes. A changed node is counted again when the sum is next read."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[int, ...]] = {}
        self._sum = _NOTHING
        self._changed: dict[str, NodeAccount] = {}

    def note(self, changed: Mapping[str, NodeAccount]) -> None:
        """Mark nodes as changed, to add them up again."""
        self._changed.update(changed)

    def forget(self, name: str) -> None:
        """Remove a deleted node from the sum."""
        self._changed.pop(name, None)
        self._replace(name, _NOTHING)

    def sum(self) -> Totals:
        """The current sum, in time that grows with the number of changed nodes."""
        for name, account in self._changed.items():
            self._replace(name, totals_of(account))
        self._changed.clear()
        return self._sum

    def _replace(self, name: str, totals: Totals) -> None:
        before = self._counted.get(name, _NOTHING)
        if before == totals:
            return
        # The garbage collector does not track a plain tuple of numbers.
        self._counted[name] = tuple(totals)
        if totals == _NOTHING:
            del self._counted[name]
        pairs = zip(self._sum, before, totals, strict=True)
        self._sum = Totals(*[total - old + new for total, old, new in pairs])


def totals_of(account: NodeAccount) -> Totals:
    """Count one node as `ledger.view.node_view` shows it; zeros if it is unknown or has no GPUs."""
    fact = account.fact
    if fact is None or not fact.has_gpus:
        return _NOTHING
    offered, taken = account.offered, account.taken
    units = offered.keys() | taken.keys()
    pairs = [(unit, offered.get(unit, 0), taken.get(unit, 0)) for unit in units]
    return Totals(
        gpus=sum([isinstance(unit, Gpu) for unit in units]),
        capacity=sum([capacity for _, capacity, _ in pairs]),
        used=sum([used for _, _, used in pairs]),
        free=sum([max(0, capacity - used) for unit, capacity, used in pairs if fact.takes_pods_on(unit)]),
        # Only bound pods can exceed the capacity; reservations may still wait.
        over=sum(
            [max(0, account.held(unit) - capacity) for unit, capacity, used in pairs if used > capacity]
        ),
    )
