"""Places pods while the controller is unavailable: from its last stream data, or from assumptions.

Nothing here is exact: two webhooks may choose the same slices. Scheduler and kubelet never allocate a slice
twice, so the later pod waits. What is unknown is not guessed. Placements made here are kept as sums
(webhook/placing/local_placements.py) for as long as the stream is silent.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from ledger.facts import PodFact, PodKey
from ledger.ledger import Ledger
from ledger.messages import NodeState
from ledger.placement_request import (
    AllocatedShare,
    OverQuota,
    Placement,
    PlacementRequest,
    PlacementResult,
    Unschedulable,
)
from ledger.reservations import COUNTED_SECONDS
from ledger.view import PendingView
from webhook.admission.denial import Reason
from webhook.placing.local_placements import LocalPlacements
from webhook.placing.placer import Unanswered
from webhook.placing.replicas import KnownReplicas

NODES_AT_ONCE = 128
"""Nodes added before other tasks run."""


class Fallback:
    """A ledger of the controller's last data, and of what was placed here since."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ledger = Ledger()
        self._replicas = KnownReplicas(self._ledger)
        self._local_placements = LocalPlacements(self._ledger, self._replicas)
        self._pending: dict[PodKey, PodFact] = {}
        self._nodes: dict[str, PodFact] = {}
        """What is used on each node, as one pod."""
        self._known = False
        self._live_at = -COUNTED_SECONDS

    def place(self, request: PlacementRequest) -> PlacementResult | Unanswered:
        """Decide a request; the result is marked as degraded."""
        accounting = request.accounting
        shut = next((quota for quota in accounting.quotas if quota.shuts_by is not None), None)
        if shut is not None and shut.shuts_by is not None:
            # This needs no counting.
            return OverQuota(shut, 0, 1, 0, shut.shuts_by)
        if accounting.quotas and accounting.quotas_when_degraded == "deny":
            quota = accounting.quotas[0]
            why = f'quota of {quota.scope} "{quota.name}" cannot be counted while the controller is away'
            return Unanswered(Reason.QUOTA_UNKNOWN, f"{why}: try again")
        if accounting.reservation is not None:
            self.release(accounting.reservation)
            self._local_placements.release_former(request)
        self._ledger.doubts_reservations = self._doubts()
        uncounted = msgspec.structs.replace(accounting, quotas=())
        answer = self._ledger.allocate(msgspec.structs.replace(request, accounting=uncounted), self._clock())
        if isinstance(answer, AllocatedShare):
            return msgspec.structs.replace(self._kept(request, answer), degraded=True)
        if isinstance(answer, Unschedulable) and not self._known:
            why = "the controller cannot be reached, and the policy assumes nothing of the nodes: try again"
            return Unanswered(Reason.NO_CONTROLLER, why)
        return answer

    def release(self, reservation: str) -> None:
        """Release what was placed here."""
        self._local_placements.release(reservation)

    def mark_live(self) -> None:
        """Record that the controller's stream has delivered everything up to now."""
        self._live_at = self._clock()
        self._local_placements.forget(self._live_at)

    def _doubts(self) -> bool:
        """Whether pods that were placed here do not appear, which only the stream can show."""
        is_live = self._clock() - self._live_at < COUNTED_SECONDS
        return is_live and not self._local_placements.pods_appear

    @property
    def is_known(self) -> bool:
        """Whether the controller has ever sent all its data."""
        return self._known

    def nodes(self) -> int:
        """Return the number of nodes that the controller knew."""
        return len(self._nodes)

    def used(self) -> int:
        """Return the slices allocated on all nodes, including those placed here."""
        return self._ledger.totals().used

    async def replace(self, nodes: Mapping[str, NodeState], backlog: Iterable[PendingView]) -> None:
        """Set all that the controller knows, a part in each step of the event loop."""
        for number, state in enumerate(nodes.values(), 1):
            self.set_node(state)
            if number % NODES_AT_ONCE == 0:
                await self._pause()
        for number, name in enumerate(self._nodes.keys() - nodes.keys(), 1):
            self.remove_node(name)
            if number % NODES_AT_ONCE == 0:
                await self._pause()
        self.set_backlog(backlog)
        await self._pause()
        # These objects live long: a full garbage collection over them would delay reviews.
        gc.freeze()
        self._known = True

    def set_node(self, state: NodeState) -> None:
        """Set the current state of a node; the inverse of `remove_node`."""
        name, taken = state.fact.name, _taken(state)
        before = self._nodes.get(name)
        self._nodes[name] = taken
        self._ledger.set_node(state.fact)
        self._ledger.set_pod(taken)
        self._replicas.set_reported(name, state.replicas)
        self._local_placements.appeared(name, _more([taken], [before] if before is not None else []))

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self._nodes.pop(name, None)
        self._replicas.set_reported(name, ())
        self._ledger.remove_node(name)
        self._ledger.remove_pod(("", name))

    def set_backlog(self, backlog: Iterable[PendingView]) -> None:
        """Set the pods that wait now."""
        pods = {pod.key: pod for pod in map(_waiting, backlog)}
        for key in self._pending.keys() - pods.keys():
            self._ledger.remove_pod(key)
        for pod in pods.values():
            self._ledger.set_pod(pod)
        new = [pod for key, pod in pods.items() if key not in self._pending]
        self._local_placements.appeared(None, _more(new, []))
        self._pending = pods

    def _kept(self, request: PlacementRequest, allocated: AllocatedShare) -> Placement:
        """Keep a placement for as long as the stream is silent; the ledger would soon expire it."""
        reserved, reservation = allocated.placement.reservation, request.accounting.reservation
        if reservation is None:
            return allocated.placement
        if reserved is not None:
            self._ledger.release(reserved)
        allocated = allocated.placed(reservation=reserved or reservation)
        self._local_placements.add(request, allocated, self._clock())
        return allocated.placement

    async def _pause(self) -> None:
        self._ledger.totals()
        await asyncio.sleep(0)


def _more(now: Iterable[PodFact], before: Iterable[PodFact]) -> Counter[int | None]:
    """Return by index how many slices there are more than before."""
    more: Counter[int | None] = Counter()
    for pods, sign in ((now, 1), (before, -1)):
        for pod in pods:
            for index, slices in pod.gpus:
                more[index] += sign * slices
            more[None] += sign * pod.pooled
    return +more


def _taken(state: NodeState) -> PodFact:
    """Return everything used on a node as one pod; no real pod has an empty namespace."""
    gpus = ((gpu.index, gpu.used) for gpu in state.view.gpus)
    return PodFact(
        namespace="",
        name=state.fact.name,
        node=state.fact.name,
        gpus=tuple((index, used) for index, used in gpus if index is not None and used),
        pooled=sum(gpu.used for gpu in state.view.gpus if gpu.index is None),
        cpu_milli=state.fact.cpu_milli - state.cpu_free,
        memory_bytes=state.fact.memory_bytes - state.memory_free,
    )


def _waiting(waiting: PendingView) -> PodFact:
    same = waiting.slices // max(1, len(waiting.indices))
    on_each = waiting.on_each or (same,) * len(waiting.indices)
    return PodFact(
        namespace=waiting.namespace,
        name=f"{waiting.kind}/{waiting.name}",
        gpus=tuple(zip(waiting.indices, on_each, strict=False)),
        pooled=0 if waiting.indices else waiting.slices,
    )
