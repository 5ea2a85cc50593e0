"""Placing while the controller cannot be asked: from the last that it streamed, or from what is assumed.

Nothing here is exact: two webhooks may choose the same slices. The scheduler and the kubelet refuse a ninth
one, so that the later pod waits. What cannot be told at all is not guessed. What was placed here is kept in
sums (webhook/placing/local_placements.py) for as long as the stream is silent.
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
from ledger.placement_request import OverQuota, Placement, PlacementRequest, PlacementResult, Unschedulable
from ledger.reservations import COUNTED_SECONDS
from ledger.view import PendingView
from webhook.admission.denial import Reason
from webhook.placing.local_placements import LocalPlacements
from webhook.placing.placer import Unanswered
from webhook.placing.replicas import KnownReplicas

NODES_AT_ONCE = 128
"""That are taken in before others get a turn."""


class Fallback:
    """A ledger of what the controller last said, and of what was placed here since."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ledger = Ledger()
        self._replicas = KnownReplicas(self._ledger)
        self._local_placements = LocalPlacements(self._ledger, self._replicas)
        self._pending: dict[PodKey, PodFact] = {}
        self._nodes: dict[str, PodFact] = {}
        """What is taken of each node, as one pod."""
        self._known = False
        self._heard_at = -COUNTED_SECONDS

    def place(self, request: PlacementRequest) -> PlacementResult | Unanswered:
        """Decide a request, marked as degraded."""
        shut = next((quota for quota in request.quotas if quota.shuts_by is not None), None)
        if shut is not None and shut.shuts_by is not None:
            # Nothing has to be counted for that.
            return OverQuota(shut, 0, 1, 0, shut.shuts_by)
        if request.quotas and request.quotas_when_degraded == "deny":
            quota = request.quotas[0]
            why = f'quota of {quota.scope} "{quota.name}" cannot be counted while the controller is away'
            return Unanswered(Reason.QUOTA_UNKNOWN, f"{why}: try again")
        if request.reservation is not None:
            self.release(request.reservation)
            self._local_placements.release_former(request)
        self._ledger.doubts_reservations = self._doubts()
        answer = self._ledger.place(msgspec.structs.replace(request, quotas=()), self._clock())
        if isinstance(answer, Placement):
            return msgspec.structs.replace(self._kept(request, answer), degraded=True)
        if isinstance(answer, Unschedulable) and not self._known:
            why = "the controller cannot be reached, and the policy assumes nothing of the nodes: try again"
            return Unanswered(Reason.NO_CONTROLLER, why)
        return answer

    def release(self, reservation: str) -> None:
        """Give back what was placed here."""
        self._local_placements.release(reservation)

    def heard(self) -> None:
        """Note that the controller's stream tells all there is up to now."""
        self._heard_at = self._clock()
        self._local_placements.forget(self._heard_at)

    def _doubts(self) -> bool:
        """Whether pods that were placed here do not come: only the stream tells."""
        hears = self._clock() - self._heard_at < COUNTED_SECONDS
        return hears and not self._local_placements.are_kept

    @property
    def is_known(self) -> bool:
        """Whether the controller has said once what it knows."""
        return self._known

    def nodes(self) -> int:
        """How many nodes the controller knew of."""
        return len(self._nodes)

    def used(self) -> int:
        """Slices allocated on all nodes, those placed here included."""
        return self._ledger.totals().used

    async def replace(self, nodes: Mapping[str, NodeState], backlog: Iterable[PendingView]) -> None:
        """Take in all that the controller knows, a slice in each step of the event loop."""
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
        # What was taken in lives long: a full collection that walked it would hold reviews up.
        gc.freeze()
        self._known = True

    def set_node(self, state: NodeState) -> None:
        """Take in how a node is now; the inverse of `remove_node`."""
        name, taken = state.fact.name, _taken(state)
        before = self._nodes.get(name)
        self._nodes[name] = taken
        self._ledger.set_node(state.fact)
        self._ledger.set_pod(taken)
        self._replicas.set_reported(name, state.replicas)
        self._local_placements.shown_up(name, _more([taken], [before] if before is not None else []))

    def remove_node(self, name: str) -> None:
        """Take in that a node is gone."""
        self._nodes.pop(name, None)
        self._replicas.set_reported(name, ())
        self._ledger.remove_node(name)
        self._ledger.remove_pod(("", name))

    def set_backlog(self, backlog: Iterable[PendingView]) -> None:
        """Take in who waits now."""
        pods = {pod.key: pod for pod in map(_waiting, backlog)}
        for key in self._pending.keys() - pods.keys():
            self._ledger.remove_pod(key)
        for pod in pods.values():
            self._ledger.set_pod(pod)
        new = [pod for key, pod in pods.items() if key not in self._pending]
        self._local_placements.shown_up(None, _more(new, []))
        self._pending = pods

    def _kept(self, request: PlacementRequest, placement: Placement) -> Placement:
        """Book a placement for as long as the stream is silent, where a ledger would soon forget it."""
        if request.reservation is None:
            return placement
        request = request.granted(placement)
        if placement.reservation is not None:
            self._ledger.release(placement.reservation)
        named = placement.reservation or request.reservation
        placement = msgspec.structs.replace(placement, reservation=named)
        self._local_placements.add(request, placement, self._clock())
        return placement

    async def _pause(self) -> None:
        self._ledger.totals()
        await asyncio.sleep(0)


def _more(now: Iterable[PodFact], before: Iterable[PodFact]) -> Counter[int | None]:
    """Slices by index that there are more than before."""
    more: Counter[int | None] = Counter()
    for pods, sign in ((now, 1), (before, -1)):
        for pod in pods:
            for index, slices in pod.gpus:
                more[index] += sign * slices
            more[None] += sign * pod.pooled
    return +more


def _taken(state: NodeState) -> PodFact:
    """All that is taken of a node, as one pod; no real pod is without a namespace."""
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
