"""What the page shows of the controller, besides the ledger."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

import msgspec

from controller.pods.pod_demands import PodDemands
from controller.pods.pod_findings import HAS_ROOM, NO_GPU, summary_of, waiting_message
from controller.pods.room import RoomFinder
from controller.policies.idle_shares import IdleShares
from controller.policies.watched_policies import WatchedPolicies
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import Clock, LedgerStore
from controller.watch.resources import SeenPod
from kube.names import AGENT_TAINT, QUOTA_GATE
from kube.scheduling import Constraints
from ledger.free_nodes import FreeNodes
from ledger.own_demands import OWN_DEMANDS
from ledger.quota_line import QuotasOf, unknown_quotas
from ledger.view import PendingView
from ledger.why import TOO_LONG, needs, why
from ledger.why_claim import ShareClaim, waiting_cause
from modes.gpu_kinds import GpuKinds
from modes.resource_names import ResourceNames
from web.source import About, Denials, NodeNotes, UnlimitedPrograms, WaitingReason, no_denials

SECONDS_BETWEEN_WALKS = 0.25
MAX_CAUSE = 200
"""Characters."""
MAX_UNLIMITED = 1000
"""Containers without their limiter that the page names."""
DemandsOf = Callable[[SeenPod], Awaitable[PodDemands | None]]
"""Returns what a waiting pod demands; None if that is not known yet."""
_UNKNOWN_CARDS = "waits for a card; free cards are being searched"


def about(
    state: LedgerStore,
    role: Callable[[], str],
    reasons: WaitingReasons,
    policies: WatchedPolicies,
    denials: Denials = no_denials,
) -> About:
    """Return what the page shows about a controller."""

    def created(namespace: str, pod: str) -> str:
        seen = state.pods.get((namespace, pod))
        return seen.created if seen is not None else ""

    def notes(node: str) -> NodeNotes:
        seen, report = state.nodes.get(node), state.agents.get(node)
        return NodeNotes(
            is_held=seen is not None and any(taint.key == AGENT_TAINT for taint in seen.fact.taints),
            unhealthy=frozenset(report.unhealthy if report is not None else ()),
        )

    return About(
        role,
        created,
        reasons.of,
        policies.quotas,
        denials,
        lambda: unlimited(state.agents.values()),
        IdleShares(state, policies.idle_rule).use,
        notes,
    )


def unlimited(reports: Iterable[AgentReport]) -> tuple[Sequence[UnlimitedPrograms], int]:
    """Return programs without their limiter by node, as far as agents name them, and how many containers."""
    all_reports = list(reports)
    named = ((report.node, each) for report in all_reports for each in report.unlimited.containers)
    found = [
        UnlimitedPrograms(node, *msgspec.structs.astuple(each)) for node, each in islice(named, MAX_UNLIMITED)
    ]
    found.sort(key=lambda each: (each.node, each.namespace, each.pod, each.container))
    return found, sum(report.unlimited.count for report in all_reports)


class WaitingReasons:
    """Why pods wait, as `fraction-injector why` explains it; at most four walks over nodes per second.

    For pods that claim cards, there are at most four more over the nodes with cards.
    """

    def __init__(
        self,
        state: LedgerStore,
        names: ResourceNames,
        demands: DemandsOf,
        quotas_of: QuotasOf = unknown_quotas,
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        self._state = state
        self._demands = demands
        self._names = names
        self._quotas_of = quotas_of
        self._finder = RoomFinder(state, clock, SECONDS_BETWEEN_WALKS)

    async def of(self, waiting: PendingView) -> WaitingReason:
        """Return one paragraph: what the pod requested, what it waits for, and what would help."""
        seen = self._state.pods.get((waiting.namespace, waiting.name))
        if seen is None:
            return WaitingReason("is gone")
        if seen.fact.quota_wait is not None:
            return await self._in_line(seen)
        if seen.fact.claimed and not seen.fact.takes:
            return await self._of_claim(seen)
        asked = await self._demands(seen)
        free = None
        if asked is not None and asked.of_node is None:
            free = FreeNodes(not_compared=True)
        elif asked is not None and asked.of_node is not None:
            by_agent = seen.is_limited_by_agent
            free = await self._finder.nodes(seen.fact, asked.of_node, by_agent=by_agent)
        if asked is None or free is None:
            return WaitingReason("waits for slices; free slices are being searched")
        asks_model = bool(asked.kinds.models)
        cause = self._cause(seen, free, asks_model=asks_model)
        return WaitingReason(cause[:MAX_CAUSE], self._text(seen, free, asks_model=asks_model))

    async def _of_claim(self, seen: SeenPod) -> WaitingReason:
        asked = await self._demands(seen)
        if asked is None or asked.claim is None:
            return WaitingReason(_UNKNOWN_CARDS)
        if asked.of_node is None:
            return WaitingReason(f"its {OWN_DEMANDS} are too long to compare")
        claim = await self._with_room(seen, asked.claim, asked.kinds, asked.of_node)
        if claim.state == "waiting" and claim.asked is not None and claim.room is None:
            return WaitingReason(_UNKNOWN_CARDS)
        cause, injected = waiting_cause(claim), seen.injected
        if claim.state == "waiting" and injected is not None and not injected.lacks_cards:
            cause = "the scheduler has not tried yet, or has another reason than cards"
        return WaitingReason(
            cause[:MAX_CAUSE], why(replace(summary_of(seen, None), claim=claim), self._names)
        )

    async def _with_room(
        self, seen: SeenPod, claim: ShareClaim, kinds: GpuKinds, of_node: Constraints
    ) -> ShareClaim:
        """Return a claim as it is now, with the cards that it could take while it waits."""
        if claim.state not in {"waiting", "allocated"}:
            return claim
        held = self._state.ledger.cards.claim((seen.fact.namespace, claim.name))
        if held is not None:
            return replace(claim, state="allocated", parts=held.parts)
        room = await self._finder.cards(claim, kinds, of_node)
        return replace(claim, state="waiting", parts=(), room=room)

    def _cause(self, seen: SeenPod, free: FreeNodes, *, asks_model: bool) -> str:
        """Return a few words that are the same for all pods that wait for the same."""
        if seen.injected is not None and not seen.injected.lacks_slices:
            return "the scheduler has not tried yet, or has another reason than slices"
        if free.has_room:
            return HAS_ROOM
        if not free.most:
            return f"its {OWN_DEMANDS} exclude all nodes" if free.shut_out or free.not_compared else NO_GPU
        elsewhere = "; another GPU has room" if free.elsewhere is not None else ""
        return f"needs {needs(seen.fact, self._names, any_gpu=True, asks_model=asks_model)}{elsewhere}"

    def _text(self, seen: SeenPod, free: FreeNodes, *, asks_model: bool) -> str:
        if seen.injected is not None:
            return why(replace(summary_of(seen, free), asks_model=asks_model), self._names)
        # For a pod without the label, the controller does not keep the scheduler's message.
        message = waiting_message(seen.fact, free, self._names, asks_model=asks_model)
        if message is None and free.not_compared:
            return TOO_LONG
        return message or (HAS_ROOM if free.most else NO_GPU)

    async def _in_line(self, pod: SeenPod) -> WaitingReason:
        line = self._state.ledger.line.place_text(pod.fact.key, self._quotas_of) or ""
        text, asked = line, await self._demands(pod) if pod.fact.claimed else None
        if asked is not None or not pod.fact.claimed:
            claim = asked.claim if asked is not None else None
            summary = replace(summary_of(pod, None), claim=claim, quota_line=line, gates=(QUOTA_GATE,))
            text = why(summary, self._names)
        place, is_known, _ = line.partition(" in the line")
        return WaitingReason("the quota is used up", text, place if is_known else "")
