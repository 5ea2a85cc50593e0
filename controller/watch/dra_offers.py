"""Which cards of which nodes a DRA driver offers, and which of these a device plugin offers too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

import msgspec

from controller.watch.gpu_node import AgentReport
from controller.watch.resource_slice import DraSlice
from ledger.facts import NodeFact
from service.log import get_logger

MAX_SLICES = 65_536
"""ResourceSlices that are kept: with dynamic MIG, NVIDIA's driver writes one for each card."""
MAX_CARDS = 131_072
"""UUIDs that are kept of all of them."""


class DraCards(msgspec.Struct, frozen=True, gc=False):
    """What a DRA driver offers of one node."""

    uuids: AbstractSet[str]
    """Of its cards, as they are now: it changes with the slices."""
    are_all: bool
    """Whether it offers no device of another card."""


class _OfNode:
    """What the ResourceSlices of one node add up to: each slice costs its own cards, however many others."""

    def __init__(self) -> None:
        self.slices = 0
        self.cards: Counter[str] = Counter()
        """Slices by UUID of a card that they offer."""
        self.unnamed = 0
        """Slices of which the card of some device is unknown."""

    def add(self, found: DraSlice) -> None:
        """Enter a slice; the inverse of `remove`."""
        self.slices += 1
        self.cards.update(found.cards)
        self.unnamed += not found.names_cards

    def remove(self, found: DraSlice) -> None:
        self.slices -= 1
        self.unnamed -= not found.names_cards
        for uuid in found.cards:
            self.cards[uuid] -= 1
            if not self.cards[uuid]:
                del self.cards[uuid]


class DraOffers:
    """The ResourceSlices that offer devices of nodes, by node."""

    def __init__(self, max_slices: int = MAX_SLICES, max_cards: int = MAX_CARDS) -> None:
        self._max_slices = max_slices
        self._max_cards = max_cards
        self._slices: dict[str, DraSlice] = {}
        self._by_node: dict[str, _OfNode] = {}
        self._cards = 0
        self._is_full = False
        self._log = get_logger("watch")

    @property
    def names(self) -> AbstractSet[str]:
        """Of all that are kept."""
        return self._slices.keys()

    def put(self, found: DraSlice) -> set[str]:
        """Take in a ResourceSlice that was added or changed, and return the nodes that it is about.

        One that is too much to keep is logged and forgotten; the cards of one alone may be, too, and then
        nobody tells which of its node's cards it offers.
        """
        if self._slices.get(found.name) == found:
            return set()
        nodes = self.remove(found.name)
        if not found.offers:
            return nodes
        if len(self._slices) >= self._max_slices:
            self._log_full(found)
            return nodes
        if self._cards + len(found.cards) > self._max_cards:
            found = DraSlice(found.name, found.node, names_cards=False)
        self._cards += len(found.cards)
        self._slices[found.name] = found
        self._by_node.setdefault(found.node, _OfNode()).add(found)
        return nodes | {found.node}

    def remove(self, name: str) -> set[str]:
        """Take in that a ResourceSlice is gone, and return the node that it was about."""
        found = self._slices.pop(name, None)
        if found is None:
            return set()
        self._cards -= len(found.cards)
        of_node = self._by_node[found.node]
        of_node.remove(found)
        if not of_node.slices:
            del self._by_node[found.node]
        return {found.node}

    def on(self, node: str) -> DraCards | None:
        """Return what the driver offers of a node; None where it offers nothing."""
        found = self._by_node.get(node)
        return DraCards(found.cards.keys(), not found.unnamed) if found is not None else None

    def _log_full(self, found: DraSlice) -> None:
        if not self._is_full:
            self._log.error(
                "there are too many ResourceSlices: nodes of those beyond are not seen to be offered twice",
                kept=self._max_slices,
                name=found.name,
            )
        self._is_full = True


def with_offers(fact: NodeFact, report: AgentReport | None, offered: DraCards | None) -> NodeFact:
    """Return a node with which of its GPUs a DRA driver offers beside the device plugin.

    Names of which no slice is offered count too: the kubelet states zero until a device plugin is back.

    Args:
        fact: by the Node, and by its agent.
        report: of the agent, which names its cards; None where none reports.
        offered: by the driver; None where it offers nothing of the node.
    """
    if offered is None or not (fact.gpus or fact.pooled or fact.instances):
        return fact
    gpus = frozenset([index for index, _ in fact.gpus])
    known = _indices(fact, report, offered)
    twice = gpus if known is None else gpus & known
    is_all = known is None or twice == gpus
    if not (twice or is_all):
        return fact
    return msgspec.structs.replace(
        fact, offered_twice=twice, is_offered_twice=is_all, cordoned=fact.cordoned | twice
    )


def _indices(fact: NodeFact, report: AgentReport | None, offered: DraCards) -> AbstractSet[int] | None:
    """Return the indices of the driver's cards; None where nobody tells them, or the kubelet chooses cards.

    Of a GPU that the agent does not report another device plugin may have made the name: it counts.
    """
    if report is None or not offered.are_all or fact.pooled or fact.instances:
        return None
    if len(report.uuids) < len(report.cards) or not all(report.uuids):
        return None
    uuids = {index: uuid for (index, _), uuid in zip(report.cards, report.uuids, strict=True)}
    return {index for index, _ in fact.gpus if index not in uuids or uuids[index] in offered.uuids}
