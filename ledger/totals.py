"""Sums over all nodes, kept while nodes change, so that telling them costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ledger.accounts import NodeAccount
from modes.mig_instances import is_instance


class Totals(NamedTuple):
    """GPUs and slices, of one node or of all; MIG instances are counted like slices."""

    gpus: int = 0
    """GPUs with a resource name of their own."""
    capacity: int = 0
    """Slices that can be allocated."""
    used: int = 0
    """Slices allocated, promised ones included."""
    free: int = 0
    """Slices for new pods, summed over the GPUs that have any left."""
    over: int = 0
    """Slices that bound pods hold beyond capacity."""


_NOTHING = Totals()


class RunningTotals:
    """The sum over all nodes; a node that has changed is counted again when the sum is next asked for."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[int, ...]] = {}
        self._sum = _NOTHING
        self._changed: dict[str, NodeAccount] = {}

    def note(self, changed: Mapping[str, NodeAccount]) -> None:
        """Have these nodes counted again."""
        self._changed.update(changed)

    def forget(self, name: str) -> None:
        """Take a node that is gone out of the sum."""
        self._changed.pop(name, None)
        self._replace(name, _NOTHING)

    def sum(self) -> Totals:
        """The sum as of now, in time that grows with the nodes that have changed."""
        for name, account in self._changed.items():
            self._replace(name, totals_of(account))
        self._changed.clear()
        return self._sum

    def _replace(self, name: str, totals: Totals) -> None:
        before = self._counted.get(name, _NOTHING)
        if before == totals:
            return
        # A plain tuple of numbers is nothing that the garbage collector has to look at.
        self._counted[name] = tuple(totals)
        if totals == _NOTHING:
            del self._counted[name]
        pairs = zip(self._sum, before, totals, strict=True)
        self._sum = Totals(*[total - old + new for total, old, new in pairs])


def totals_of(account: NodeAccount) -> Totals:
    """Count one node, as `ledger.view.node_view` shows it; nothing where it is unknown or has no GPUs."""
    fact = account.fact
    if fact is None or not (fact.gpus or fact.pooled or fact.instances):
        return _NOTHING
    capacities, taken = dict(fact.gpus + fact.instances), account.taken
    indices = capacities.keys() | taken.keys()
    pairs: list[tuple[int | None, int, int]] = [
        (index, capacities.get(index, 0), taken.get(index, 0)) for index in indices
    ]
    if fact.pooled or account.taken_pooled:
        pairs.append((None, fact.pooled, account.taken_pooled))
    return Totals(
        gpus=sum([not is_instance(index) for index in indices]),
        capacity=sum([capacity for _, capacity, _ in pairs]),
        used=sum([used for _, _, used in pairs]),
        free=sum([max(0, capacity - used) for _, capacity, used in pairs]),
        # Promises alone are not too many yet.
        over=sum(
            [max(0, account.held(index) - capacity) for index, capacity, used in pairs if used > capacity]
        ),
    )
