"""Sums over all nodes, updated as nodes change, so that reading them is cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ledger.accounts import NodeAccount
from ledger.card_view import free_mib
from ledger.claimed_cards import ClaimedCards
from modes.units import Gpu


class RunningSum:
    """Sums of several numbers over nodes."""

    def __init__(self, numbers: int) -> None:
        self._nothing = (0,) * numbers
        self._counted: dict[str, tuple[int, ...]] = {}
        self.total = self._nothing

    def set(self, node: str, amounts: Sequence[int] = ()) -> None:
        """Count a node with these amounts instead of its former ones; without amounts, remove it."""
        before, after = self._counted.pop(node, self._nothing), amounts or self._nothing
        if any(after):
            # The garbage collector does not track a plain tuple of numbers.
            self._counted[node] = tuple(after)
        changes = zip(self.total, before, after, strict=True)
        self.total = tuple([total - old + new for total, old, new in changes])


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


class RunningTotals:
    """The sum over all nodes. A changed node is counted again when the sum is next read."""

    def __init__(self) -> None:
        self._sum = RunningSum(len(Totals._fields))
        self._changed: dict[str, NodeAccount] = {}

    def note(self, changed: Mapping[str, NodeAccount]) -> None:
        """Mark nodes as changed, to add them up again."""
        self._changed.update(changed)

    def forget(self, name: str) -> None:
        """Remove a deleted node from the sum."""
        self._changed.pop(name, None)
        self._sum.set(name)

    def sum(self) -> Totals:
        """The current sum, in time that grows with the number of changed nodes."""
        for name, account in self._changed.items():
            self._sum.set(name, _totals_of(account))
        self._changed.clear()
        return Totals(*self._sum.total)


def _totals_of(account: NodeAccount) -> Totals:
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


class RunningCardTotals:
    """The sums by driver. A changed node is counted again when the sums are next read."""

    def __init__(self, cards: ClaimedCards, takes_pods: Callable[[str], bool]) -> None:
        self._cards = cards
        self._takes_pods = takes_pods
        self._sums: dict[str, RunningSum] = {}
        self._changed: set[str] = set()

    def note(self, nodes: Iterable[str]) -> None:
        """Mark nodes as changed: their cards, the claims of these, or whether the node takes pods."""
        self._changed.update(nodes)

    def by_driver(self) -> Mapping[str, CardTotals]:
        """Return the sums of drivers with cards, in time that grows with the number of changed nodes."""
        for node in self._changed:
            of_node = self._count(node)
            for driver in of_node:
                self._sums.setdefault(driver, RunningSum(len(CardTotals._fields)))
            for driver, running in self._sums.items():
                running.set(node, of_node.get(driver, ()))
        self._changed.clear()
        found = {driver: CardTotals(*running.total) for driver, running in self._sums.items()}
        return {driver: total for driver, total in found.items() if total.cards}

    def _count(self, node: str) -> dict[str, tuple[int, ...]]:
        takes_pods, found = self._takes_pods(node), dict[str, tuple[int, ...]]()
        for use in self._cards.on(node):
            one = 1, use.card.mib, use.claimed_mib, free_mib(use, takes_pods=takes_pods)
            before = found.get(use.key.driver, CardTotals())
            found[use.key.driver] = tuple(map(sum, zip(before, one, strict=True)))
        return found
