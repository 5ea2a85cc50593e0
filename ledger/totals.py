"""Sums over all nodes, updated as nodes change, so that reading them is cheap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import NamedTuple

from ledger.accounts import NodeAccount
from ledger.card_view import free_mib
from ledger.claimed_cards import CardUse
from modes.units import Gpu

_Amounts = tuple[int, ...]


class RunningSums:
    """Sums of several numbers over nodes, by key. A changed node is counted again when they are next read."""

    def __init__(self, count: Callable[[str], Mapping[str, _Amounts]]) -> None:
        """`count` returns the numbers of one node by key; nothing for a deleted one."""
        self._count = count
        self._counted: dict[str, Mapping[str, _Amounts]] = {}
        self._sums: defaultdict[str, _Amounts] = defaultdict(tuple)
        self._changed: set[str] = set()

    def note(self, nodes: Iterable[str]) -> None:
        """Mark nodes as changed, to count them again."""
        self._changed.update(nodes)

    def sums(self) -> Mapping[str, _Amounts]:
        """Return the sums that are not zero, in time that grows with the number of changed nodes."""
        for node in self._changed:
            for key, amounts in self._counted.pop(node, {}).items():
                self._add(key, [-each for each in amounts])
            if found := self._count(node):
                self._counted[node] = found
                for key, amounts in found.items():
                    self._add(key, amounts)
        self._changed.clear()
        return {key: amounts for key, amounts in self._sums.items() if any(amounts)}

    def _add(self, key: str, amounts: Iterable[int]) -> None:
        self._sums[key] = tuple(map(sum, zip_longest(self._sums[key], amounts, fillvalue=0)))


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


def totals_of(account: NodeAccount) -> Totals:
    """Count one node as `ledger.view.node_view` shows it; zeros if it is unknown or has no GPUs."""
    fact = account.fact
    if fact is None or not fact.has_gpus:
        return Totals()
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


class CardTotals(NamedTuple):
    """Cards of one DRA driver, and their MiB."""

    cards: int = 0
    mib: int = 0
    claimed: int = 0
    """MiB that claims hold."""
    free: int = 0
    """MiB for new claims: those of tainted cards and of nodes that are not usable do not count."""


def card_totals_of(uses: Iterable[CardUse], *, takes_pods: bool) -> Mapping[str, CardTotals]:
    """Count the cards of one node, by driver."""
    found: dict[str, list[_Amounts]] = {}
    for use in uses:
        one = 1, use.card.mib, use.claimed_mib, free_mib(use, takes_pods=takes_pods)
        found.setdefault(use.key.driver, []).append(one)
    return {driver: CardTotals(*map(sum, zip(*each, strict=True))) for driver, each in found.items()}
