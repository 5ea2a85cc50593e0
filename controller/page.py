"""What the page says of the controller's ledger, beside the ledger itself."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from controller.free_nodes import FreeNodesFinder
from controller.ledger_store import Clock, LedgerStore
from controller.pod_conditions import waiting_message
from controller.watched_policies import WatchedPolicies
from ledger.facts import PodFact
from ledger.free_nodes import FreeNodes
from ledger.view import PendingView
from modes.resource_names import ResourceNames
from web.source import About

KEPT_SECONDS = 3.0
SECONDS_BETWEEN_WALKS = 0.25
MAX_KEPT = 256
"""Of kinds of pods, by what they want."""
_Wanted = tuple[tuple[tuple[int, int], ...], int, tuple[str, ...] | None, str | None]
_NO_GPU = "no usable node has such GPUs: they are cordoned, not ready, or not there"
_HAS_ROOM = "a node has slices enough: the scheduler has another reason, see kubectl describe pod"


def about(
    state: LedgerStore, role: Callable[[], str], names: ResourceNames, policies: WatchedPolicies | None
) -> About:
    """Return what a controller knows."""
    reasons = WaitingReasons(state, names)

    def created(namespace: str, pod: str) -> str:
        seen = state.pods.get((namespace, pod))
        return seen.created if seen is not None else ""

    quotas = policies.quotas if policies is not None else tuple
    return About(role, created, reasons.why, quotas)


class WaitingReasons:
    """Why pods wait, in the words of the Event on them. All nodes are walked at most four times a second."""

    def __init__(self, state: LedgerStore, names: ResourceNames, clock: Clock = time.monotonic) -> None:
        self._state = state
        self._names = names
        self._clock = clock
        self._finder = FreeNodesFinder(state)
        self._kept: OrderedDict[_Wanted, tuple[float, FreeNodes]] = OrderedDict()
        self._next_walk = 0.0

    async def why(self, waiting: PendingView) -> str:
        """Say what a pod needs, what is free where, and what would help."""
        seen = self._state.pods.get((waiting.namespace, waiting.name))
        if seen is None:
            return "is gone by now"
        free = await self._free(seen.fact)
        if free is None:
            return "waits for slices; where they are free is being looked up"
        owner = seen.injected.owner if seen.injected is not None else None
        message = waiting_message(seen.fact, free, self._names, owner)
        return message or (_HAS_ROOM if free.most else _NO_GPU)

    async def _free(self, fact: PodFact) -> FreeNodes | None:
        """Return where slices are free, as of some seconds ago; None where it is not this pod's turn yet."""
        wanted, now = (fact.gpus, fact.pooled, fact.memory_values, fact.model), self._clock()
        kept = self._kept.get(wanted)
        if (kept is None or kept[0] <= now) and now >= self._next_walk:
            self._next_walk = now + SECONDS_BETWEEN_WALKS
            kept = self._kept[wanted] = now + KEPT_SECONDS, await self._finder.find(fact)
            self._kept.move_to_end(wanted)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return kept[1] if kept is not None else None
