"""Sums over the cards of DRA drivers, updated as nodes change, so that reading them is cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ledger.card_view import free_mib
from ledger.claimed_cards import ClaimedCards


class CardTotals(NamedTuple):
    """Cards of one driver, and their MiB."""

    cards: int = 0
    mib: int = 0
    claimed: int = 0
    """MiB that claims hold."""
    free: int = 0
    """MiB for new claims: those of tainted cards and of nodes that are not usable do not count."""


_NOTHING = CardTotals()


class RunningCardTotals:
    """The sums by driver. A changed node is counted again when the sums are next read."""

    def __init__(self, cards: ClaimedCards, takes_pods: Callable[[str], bool]) -> None:
        self._cards = cards
        self._takes_pods = takes_pods
        self._counted: dict[str, dict[str, CardTotals]] = {}
        self._sums: dict[str, CardTotals] = {}
        self._changed: set[str] = set()

    def note(self, nodes: Iterable[str]) -> None:
        """Mark nodes as changed: their cards, the claims of these, or whether the node takes pods."""
        self._changed.update(nodes)

    def by_driver(self) -> Mapping[str, CardTotals]:
        """Return the sums of drivers with cards, in time that grows with the number of changed nodes."""
        for node in self._changed:
            before, after = self._counted.pop(node, {}), self._count(node)
            if after:
                self._counted[node] = after
            for driver in before.keys() | after.keys():
                self._replace(driver, before.get(driver, _NOTHING), after.get(driver, _NOTHING))
        self._changed.clear()
        return self._sums

    def _count(self, node: str) -> dict[str, CardTotals]:
        takes_pods, found = self._takes_pods(node), dict[str, CardTotals]()
        for use in self._cards.on(node):
            driver = use.key.driver
            one = CardTotals(1, use.card.mib, use.claimed_mib, free_mib(use, takes_pods=takes_pods))
            found[driver] = _added(found.get(driver, _NOTHING), one)
        return found

    def _replace(self, driver: str, before: CardTotals, after: CardTotals) -> None:
        change = CardTotals(*[new - old for old, new in zip(before, after, strict=True)])
        total = self._sums[driver] = _added(self._sums.get(driver, _NOTHING), change)
        if not total.cards:
            del self._sums[driver]


def _added(one: CardTotals, other: CardTotals) -> CardTotals:
    return CardTotals(*map(sum, zip(one, other, strict=True)))
