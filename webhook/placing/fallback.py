"""Places pods while the controller is unavailable: from its last stream data, or from assumptions.

Nothing here is exact: two webhooks may choose the same slices. Scheduler and kubelet never allocate a slice
twice, so the later pod waits. What is unknown is not guessed. Placements made here are reservations of the
ledger, as in the controller. They expire when the controller's stream is live again: while it is silent,
nothing reports pods that come or go.
"""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import aclosing, suppress

import msgspec

from ledger.ledger import Ledger
from ledger.messages import NodeState, StreamEvent
from ledger.placement_request import OverQuota, Placement, PlacementRequest, PlacementResult, Unschedulable
from ledger.view import PendingView
from modes.facts import PodFact, PodKey
from modes.mig_profiles import MigCard
from modes.units import POOL, unit_of
from service.yielding import TimeSlice
from webhook.admission.denial import Reason
from webhook.placing.client import ControllerClient
from webhook.placing.known_claims import KnownClaims
from webhook.placing.placer import Unanswered

SILENCE_SECONDS = 5.0
"""The controller never leaves a stream silent for more than a second."""
CONNECT_SECONDS = 2.0
PAUSE_SECONDS = 0.5
_DATA = b"data: "
_event = msgspec.json.Decoder(StreamEvent)
_Pods = Mapping[PodKey, PodFact]


class Fallback:
    """A ledger of the controller's last data; its reservations are what was placed here since."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ledger = Ledger()
        self._nodes: dict[str, _Pods] = {}
        """What is used on each node, as pods."""
        self._pending: _Pods = {}
        self.is_known = False
        """Whether the controller has ever sent all its data."""
        self.claims = KnownClaims(clock)
        self._live_at = -math.inf
        """When the stream had last delivered everything."""
        self._delivered: set[str] | None = None
        """Nodes of a stream that has not delivered everything yet."""

    def place(self, request: PlacementRequest) -> PlacementResult | Unanswered:
        """Decide a request; the result is marked as degraded."""
        accounting = request.accounting
        shut = next((quota for quota in accounting.quotas if quota.shuts_by is not None), None)
        if shut is not None and shut.shuts_by is not None:
            # This needs no counting.
            return OverQuota(shut, 0, 1, 0, shut.shuts_by)
        if accounting.waits_when_degraded and not request.demands.constraints.node_name:
            request = request.with_demands(is_gated=True)
        elif accounting.quotas and accounting.quotas_when_degraded == "deny":
            quota = accounting.quotas[0]
            why = f'quota of {quota.scope} "{quota.name}" cannot be counted while the controller is away'
            return Unanswered(Reason.QUOTA_UNKNOWN, f"{why}: try again")
        known = self.claims.find(request)
        if known is not None:
            return msgspec.structs.replace(known, degraded=True, waits_for_quota=request.demands.is_gated)
        now = self._clock()
        uncounted = msgspec.structs.replace(accounting, quotas=())
        request = msgspec.structs.replace(request, accounting=uncounted)
        answer = self._ledger.place(request, now, self._live_at)
        if isinstance(answer, Placement) and not request.share.is_claim(answer):
            return msgspec.structs.replace(answer, degraded=True)
        if accounting.reservation is not None:
            self.release(accounting.reservation)
        if request.share.mode_type.is_claimed and not request.demands.resource:
            why = "only the controller makes templates of claims, and this namespace had no such pod lately"
        elif isinstance(answer, Unschedulable) and not self.is_known:
            why = "the controller cannot be reached, and the policy assumes nothing of the nodes"
        else:
            return answer
        return Unanswered(Reason.NO_CONTROLLER, f"{why}: try again")

    def release(self, reservation: str) -> None:
        """Release a reservation that was made here."""
        self._ledger.release(reservation)

    async def follow(self, client: ControllerClient) -> None:
        """Stay at the controller's latest data until cancelled; what is known stays while nothing answers."""
        time_slice = TimeSlice()
        while True:
            # The placer, which has more requests, reports whether the controller answers.
            with suppress(OSError, ValueError, TimeoutError):
                stream = client.stream("/v1/ledger/stream", CONNECT_SECONDS, SILENCE_SECONDS)
                async with aclosing(stream) as lines:
                    self.begin_stream()
                    async for line in lines:
                        if line.startswith(_DATA):
                            self.take(_event.decode(line[len(_DATA) :]))
                            await time_slice.pause()
                        self.mark_live()
            await asyncio.sleep(PAUSE_SECONDS)

    def begin_stream(self) -> None:
        """Begin to note what a new stream delivers; what is known stays until it has delivered everything."""
        self._delivered = set()

    def take(self, event: StreamEvent) -> None:
        """Follow an event of the controller's stream."""
        if event.node is not None:
            self.set_node(event.node)
            if self._delivered is not None:
                self._delivered.add(event.node.fact.name)
        if event.gone is not None:
            self.remove_node(event.gone)
        if event.backlog is not None:
            self.set_backlog(event.backlog)
        # Indexes the node now: the next placement would index all of them in one step.
        self._ledger.totals()
        if event.synced and self._delivered is not None:
            for name in self._nodes.keys() - self._delivered:
                self.remove_node(name)
            # These objects live long: a full garbage collection over them would delay reviews.
            gc.freeze()
            self.is_known, self._delivered = True, None

    def mark_live(self) -> None:
        """Record that the stream is live; before its beginning is complete, that says nothing of its data."""
        if self._delivered is not None:
            return
        self._live_at = self._clock()
        self._ledger.expire(self._live_at)

    def may_have(self, memory_values: Collection[str]) -> bool:
        """Whether a node that the controller knew has GPUs of one of these memory values."""
        return not self.is_known or self._ledger.may_have(memory_values)

    def mig_cards(self) -> dict[str, MigCard]:
        """How cards can be divided, by their models, as the controller knew it."""
        return self._ledger.mig_cards()

    def nodes(self) -> int:
        """Return the number of nodes that the controller knew."""
        return len(self._nodes)

    def used(self) -> int:
        """Return the slices allocated on all nodes, including those placed here."""
        return self._ledger.totals().used

    def set_node(self, state: NodeState) -> None:
        """Set the current state of a node; the inverse of `remove_node`."""
        name = state.fact.name
        self._ledger.set_node(state.fact)
        self._nodes[name] = self._set_pods((_taken(state),), self._nodes.get(name, {}))

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self._ledger.remove_node(name)
        self._set_pods((), self._nodes.pop(name, {}))

    def set_backlog(self, backlog: Iterable[PendingView]) -> None:
        """Set the pods that wait now."""
        self._pending = self._set_pods(map(_waiting, backlog), self._pending)

    def _set_pods(self, pods: Iterable[PodFact], before: _Pods) -> _Pods:
        """Replace the pods of a node, or those that wait; return them."""
        now = {pod.key: pod for pod in pods}
        for key in before.keys() - now.keys():
            self._ledger.remove_pod(key)
        for pod in now.values():
            self._ledger.set_pod(pod)
        return now


def _taken(state: NodeState) -> PodFact:
    """Return everything used on a node as one pod. No real pod has an empty namespace."""
    name = state.fact.name
    return PodFact(
        namespace="",
        name=name,
        node=name,
        takes=tuple([(gpu.unit, gpu.used) for gpu in state.view.gpus if gpu.used]),
        cpu_milli=state.fact.cpu_milli - state.cpu_free,
        memory_bytes=state.fact.memory_bytes - state.memory_free,
        extended=tuple(state.extended.items()),
    )


def _waiting(waiting: PendingView) -> PodFact:
    same = waiting.slices // max(1, len(waiting.indices))
    on_each = waiting.on_each or (same,) * len(waiting.indices)
    return PodFact(
        namespace=waiting.namespace,
        name=f"{waiting.kind}/{waiting.name}",
        takes=tuple(zip(map(unit_of, waiting.indices), on_each, strict=False)) or ((POOL, waiting.slices),),
    )
