"""Where slices are free for a pod that waits: for people, so a moment old at most, and found in slices."""

from __future__ import annotations

import time
from collections.abc import Callable

from controller.ledger_store import LedgerStore
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.facts import PodFact
from ledger.free_nodes import MAX_NODES_NAMED, Amounts, FreeNodes, amounts_of
from modes.mig_instances import is_instance

KEPT_SECONDS = 2.0
"""Pods that wait for the same are told the same for so long."""
_Wanted = tuple[Amounts, tuple[str, ...] | None, tuple[str, ...], bool]
"""Amounts, values of the memory label, those of the product label (none: any), and whether only an agent
limits the pod."""


class FreeNodesFinder:
    """Walks all nodes once for all pods that want the same."""

    def __init__(self, state: LedgerStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._clock = clock
        self._kept: dict[_Wanted, tuple[float, FreeNodes]] = {}

    async def find(self, fact: PodFact, *, by_agent: bool = False) -> FreeNodes:
        """The nodes for a pod that wants these indices, or the pool, of GPUs with such memory.

        With `by_agent` only those whose agent serves: nothing else limits the pod.
        """
        now = self._clock()
        self._kept = {wanted: kept for wanted, kept in self._kept.items() if kept[0] > now}
        wanted: _Wanted = (amounts_of(fact), fact.memory_values, fact.models, by_agent)
        kept = self._kept.get(wanted)
        if kept is None:
            kept = self._kept[wanted] = now + KEPT_SECONDS, await self._walk(wanted)
        return kept[1]

    async def _walk(self, wanted: _Wanted) -> FreeNodes:
        most: list[tuple[int, str]] = []
        elsewhere: tuple[str, int, int] | None = None
        count, has_room, offered_twice = 0, False, 0
        async for names in self._state.yielding.batches(list(self._state.nodes)):
            found = [(self._free(name, wanted), name) for name in names]
            there = [(-free, name) for free, name in found if free is not None]
            count += len(there)
            has_room = has_room or any(self._holds(name, -free, wanted) for free, name in there)
            offered_twice += sum(self._offers_twice(name, wanted) for name in names)
            most = sorted([*most, *there])[:MAX_NODES_NAMED]
            others = (self._elsewhere(name, wanted) for name in names)
            elsewhere = elsewhere or next(filter(None, others), None)
        named = tuple((name, -free) for free, name in most)
        return FreeNodes(
            named,
            count - len(most),
            elsewhere,
            has_room=has_room,
            by_agent=wanted[3],
            offered_twice=offered_twice,
        )

    def _free(self, name: str, wanted: _Wanted) -> int | None:
        """Slices left; None where the pod cannot go."""
        amounts = wanted[0]
        if not self._can_go(name, wanted):
            return None
        return self._state.ledger.free(name, [index for index, _ in amounts])

    def _holds(self, name: str, free: int, wanted: _Wanted) -> bool:
        """Whether a node where the pod can go, with so many slices left, has all that it asks for."""
        amounts = wanted[0]
        if len(amounts) == 1 or free == 0:
            return free >= amounts[0][1]
        return all((self._state.ledger.free(name, (index,)) or 0) >= slices for index, slices in amounts)

    def _elsewhere(self, name: str, wanted: _Wanted) -> tuple[str, int, int] | None:
        """The GPU of a node that a pod of one GPU would fit on, had it that number."""
        amounts = wanted[0]
        index, slices = amounts[0]
        if len(amounts) > 1 or index is None or is_instance(index) or not self._can_go(name, wanted):
            return None
        found = self._state.ledger.freest(name)
        return (name, *found) if found is not None and found[1] >= slices else None

    def _offers_twice(self, name: str, wanted: _Wanted) -> bool:
        if name not in self._state.offered_twice or not self._can_go(name, wanted):
            return False
        fact, indices = self._state.nodes[name].fact, [index for index, _ in wanted[0]]
        offered: dict[int | None, int] = {None: fact.pooled, **dict(fact.gpus), **dict(fact.instances)}
        is_twice = fact.is_offered_twice or any(index in fact.offered_twice for index in indices)
        return is_twice and all(offered.get(index) for index in indices)

    def _can_go(self, name: str, wanted: _Wanted) -> bool:
        _, memory_values, models, by_agent = wanted
        node = self._state.nodes.get(name)
        if node is None or not node.fact.usable or (by_agent and node.fact.agent != "serving"):
            return False
        if models and node.fact.labels.get(GPU_PRODUCT_LABEL) not in models:
            return False
        return not memory_values or node.fact.labels.get(GPU_MEMORY_LABEL) in memory_values
