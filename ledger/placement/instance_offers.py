"""The MIG instances that nodes of the cluster offer, by the model of their cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from kube.names import GPU_PRODUCT_LABEL
from ledger.placement_request import Oversized, Placement
from modes.facts import NodeFact
from modes.mode import Offer
from modes.registry import MODES
from modes.units import Profile


class InstanceOffers:
    """How many nodes make the same offer: a model and its profiles."""

    def __init__(self) -> None:
        self._nodes: Counter[Offer] = Counter()

    def add(self, node: NodeFact) -> None:
        """Count a node's offer; the inverse of `remove`."""
        self._nodes.update(_offers(node))

    def remove(self, node: NodeFact) -> None:
        """Remove a node's offer; the inverse of `add`."""
        for offer in _offers(node):
            self._nodes[offer] -= 1
            if not self._nodes[offer]:
                del self._nodes[offer]

    def known(self) -> Collection[Offer]:
        """Return each offer that at least one node makes."""
        return self._nodes.keys()


class Option(NamedTuple):
    """A placement on an instance, and how much waits for such instances."""

    placement: Placement
    load: int

    @property
    def is_more_than_twice(self) -> bool:
        """Whether more than half of the instance would be idle."""
        instance = self.placement.instance
        return instance is not None and instance.is_more_than_twice

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """Sort key: the best sorts first."""
        instance, waits = self.placement.instance, self.placement.node is None
        eighths, mib = (instance.eighths, instance.mib) if instance is not None else (0, 0)
        return waits, eighths, self.load if waits else 0, mib


def within_twice(placed: Sequence[Option], oversized: Oversized) -> list[Placement]:
    """Return placements on instances, the best first: those with room, then the smallest.

    Instances of more than twice the request are included only if there is no other, or if `oversized` is
    "take".
    """
    fitting = [each for each in placed if not each.is_more_than_twice]
    taken = placed if oversized == "take" or not fitting else fitting
    return [each.placement for each in sorted(taken, key=lambda each: each.rank)]


def _offers(node: NodeFact) -> list[Offer]:
    product = node.labels.get(GPU_PRODUCT_LABEL) or ""
    resource_units = [mode.resource_units(node) for mode in MODES.values() if mode.takes is Profile]
    return [(product, each) for each in resource_units if each]
