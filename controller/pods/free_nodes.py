"""Finds nodes with free slices for a waiting pod, for users: the result may be a moment old."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import msgspec

from controller.watch.ledger_store import LedgerStore
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from kube.scheduling import Constraints
from ledger.free_nodes import FreeNodes, FreeNodesSearch, NodeRoom, Wanted, amounts_of
from ledger.ledger import Ledger
from ledger.own_demands import OwnDemands
from modes.facts import NodeFact, PodFact

ANY_NODE = Constraints()
"""The demands of a pod without demands."""

KEPT_SECONDS = 2.0
"""How long a result is reused for pods with the same request."""
_Kind = tuple[Wanted, bytes]
"""Requirements of pods, and a digest of their demands on nodes: equal pods get the same result."""


class FreeNodesFinder:
    """Walks all nodes once for all pods with the same request."""

    def __init__(self, state: LedgerStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._clock = clock
        self._kept: dict[_Kind, tuple[float, FreeNodes]] = {}

    async def find(
        self, fact: PodFact, demands: Constraints = ANY_NODE, *, by_agent: bool = False
    ) -> FreeNodes:
        """Return the nodes for a pod.

        Args:
            fact: the pod.
            demands: its demands on its node.
            by_agent: whether only nodes with a serving agent count, because nothing else limits the pod.
        """
        now = self._clock()
        self._kept = {kind: kept for kind, kept in self._kept.items() if kept[0] > now}
        kind = kind_of(fact, demands, by_agent=by_agent)
        kept = self._kept.get(kind)
        if kept is None:
            kept = self._kept[kind] = now + KEPT_SECONDS, await self._walk(kind[0], demands)
        return kept[1]

    async def _walk(self, wanted: Wanted, demands: Constraints) -> FreeNodes:
        own = OwnDemands(demands)
        search = FreeNodesSearch(wanted, lambda name: own.accept(self._state.nodes[name].fact))
        async for names in self._state.yielding.batches(list(self._state.nodes)):
            for name in names:
                node = self._state.nodes.get(name)
                if node is not None:
                    search.look_at(_room(node.fact, self._state.ledger))
        return search.found


def _room(fact: NodeFact, ledger: Ledger) -> NodeRoom:
    labels, free = fact.labels, ledger.free_units(fact.name)
    product, memory = labels.get(GPU_PRODUCT_LABEL), labels.get(GPU_MEMORY_LABEL)
    return NodeRoom(fact.name, fact.usable, product, memory, fact.agent == "serving", free)


def kind_of(fact: PodFact, demands: Constraints, *, by_agent: bool) -> _Kind:
    """Return the key under which pods share a result."""
    digest = hashlib.sha256(msgspec.json.encode(demands)).digest()[:16] if demands != ANY_NODE else b""
    return Wanted(amounts_of(fact), fact.memory_values, fact.models, by_agent), digest
