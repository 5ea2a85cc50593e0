"""The cards of each node that a DRA driver offers, and which of them a device plugin offers too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

import msgspec

from controller.watch.gpu_node import AgentReport
from controller.watch.resource_slice import DraSlice
from modes.facts import NodeFact
from service.log import get_logger

MAX_SLICES = 65_536
"""ResourceSlices that are kept: with dynamic MIG, NVIDIA's driver writes one per card."""
MAX_CARDS = 131_072
"""UUIDs that are kept in total."""


class DraCards(msgspec.Struct, frozen=True, gc=False):
    """The cards of one node that a DRA driver offers."""

    uuids: AbstractSet[str]
    """UUIDs of the cards; the set changes with the slices."""
    are_all: bool
    """Whether the card of every offered device is known."""


class _OfNode:
    """The sum of one node's ResourceSlices, updated at the cost of the changed slice."""

    def __init__(self) -> None:
        self.slices = 0
        self.cards: Counter[str] = Counter()
        """Number of slices by UUID of a card that they offer."""
        self.unnamed = 0
        """Slices with a device whose card is unknown."""

    def add(self, found: DraSlice) -> None:
        """Add a slice; the inverse of `remove`."""
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
    """The ResourceSlices with devices of nodes, by node."""

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
        """Names of all slices that are kept."""
        return self._slices.keys()

    def put(self, found: DraSlice) -> set[str]:
        """Add or change a ResourceSlice, and return the affected nodes.

        A slice beyond MAX_SLICES is logged and dropped. A slice beyond MAX_CARDS is kept without its cards:
        it is then unknown which cards of its node it offers.
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
        """Remove a ResourceSlice, and return the affected node."""
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
        """Return what the driver offers of a node; None if nothing."""
        found = self._by_node.get(node)
        return DraCards(found.cards.keys(), not found.unnamed) if found is not None else None

    def _log_full(self, found: DraSlice) -> None:
        if not self._is_full:
            self._log.error(
                "there are too many ResourceSlices: further nodes whose GPUs are offered twice are not found",
                kept=self._max_slices,
                name=found.name,
            )
        self._is_full = True


def with_offers(fact: NodeFact, report: AgentReport | None, offered: DraCards | None) -> NodeFact:
    """Return a node with the GPUs that a DRA driver offers in addition to the device plugin.

    Resource names without slices count too: the kubelet reports zero until a device plugin is back.

    Args:
        fact: facts by the Node and its agent.
        report: the agent's report, which lists its cards; None without one.
        offered: the driver's offer; None if it offers nothing of the node.
    """
    if offered is None or not fact.has_gpus:
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
    """Return the indices of the driver's cards; None if unknown, or if the kubelet chooses cards.

    A GPU that the agent does not report counts too: another device plugin may offer its name.
    """
    if report is None or not offered.are_all or fact.pooled or fact.instances:
        return None
    if len(report.uuids) < len(report.cards) or not all(report.uuids):
        return None
    uuids = {index: uuid for (index, _), uuid in zip(report.cards, report.uuids, strict=True)}
    return {index for index, _ in fact.gpus if index not in uuids or uuids[index] in offered.uuids}
