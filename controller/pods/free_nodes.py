"""Finds nodes with free slices for a waiting pod, for users: the result may be a moment old."""

from __future__ import annotations

from controller.pods.walks import Walks, digest_of
from controller.watch.ledger_store import LedgerStore
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from kube.scheduling import Constraints
from ledger.free_nodes import FreeNodes, FreeNodesSearch, NodeRoom, Wanted, amounts_of
from ledger.ledger import Ledger
from ledger.own_demands import OwnDemands
from modes.facts import NodeFact, PodFact

ANY_NODE = Constraints()
"""The demands of a pod without demands."""


class FreeNodesFinder:
    """Walks all nodes once for all pods with the same request."""

    def __init__(self, state: LedgerStore, walks: Walks[FreeNodes] | None = None) -> None:
        self._state = state
        self._walks = walks or Walks[FreeNodes]()

    async def find(
        self, fact: PodFact, demands: Constraints = ANY_NODE, *, by_agent: bool = False
    ) -> FreeNodes | None:
        """Return the nodes for a pod; None if it has to wait for the walk.

        Args:
            fact: the pod.
            demands: its demands on its node.
            by_agent: whether only nodes with a serving agent count, because nothing else limits the pod.
        """
        wanted = Wanted(amounts_of(fact), fact.memory_values, fact.models, by_agent)
        return await self._walks.find((wanted, digest_of(demands)), lambda: self._walk(wanted, demands))

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
