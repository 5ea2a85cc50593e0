"""Explains one pod, or a workload whose pods are rejected, from what a user may read of the API server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from urllib.parse import quote

import msgspec

from cluster.kube_client import ApiError, ApiServer
from cluster.listing import PAGE, list_all, objects_at, pages
from cluster.object_reader import StoredObject
from controller.pods.pending_pod import StoredPod
from controller.pods.pod_claim import UNANSWERED, kinds_of, read_claim_of_pod
from controller.pods.pod_findings import summary_of
from controller.publish.gpu_ledger import gpu_ledgers, view_of
from controller.watch.gpu_node import gpu_nodes
from controller.watch.resources import SeenNode, SeenPod, nodes, pods
from describe.offered_cards import read_room
from describe.pod_details import events_of, newest_first, with_details
from kube.events import MIG_WAITS, WAITING_FOR_QUOTA
from kube.names import GPU_MEMORY_LABEL, GPU_NODES_PATH, GPU_PRODUCT_LABEL
from kube.scheduling import Constraints
from ledger.free_nodes import FreeNodes, Wanted, amounts_of, free_nodes
from ledger.instance_worth import has_instances
from ledger.own_demands import OwnDemands
from ledger.use import sentence
from ledger.why import PodSummary, why
from ledger.why_claim import ShareClaim
from ledger.why_refused import EventSummary, is_refusal, why_absent, why_refused
from modes.facts import PodFact
from modes.resource_names import ResourceNames

MAX_PAGES = 20
REFUSED = "FailedCreate"
NOT_CREATED, NOT_PREPARED = "FailedResourceClaimCreation", "FailedPrepareDynamicResources"
"""Reasons of Kubernetes' Events on pods: their claim was not created, or their node's driver failed."""


@dataclass(slots=True)
class WhyAnswer:
    """The explanation of why a pod waits, and what could not be read for it."""

    text: str
    is_known: bool
    """Whether the pod exists, or a workload whose pod was rejected."""
    unread: list[str] = field(default_factory=list)
    """What could not be read, and why; the text does not use it."""
    claim: ShareClaim | None = None
    """The claim of its share, in mode dra."""


class WhyQuery:
    """Reads one API server to explain one pod."""

    def __init__(self, api: ApiServer, names: ResourceNames, now: datetime) -> None:
        self._api = api
        self._names = names
        self._now = now
        self._unread: list[str] = []

    async def answer(self, namespace: str, name: str) -> WhyAnswer:
        """Explain a pod, or the workload that should have created one, by its name.

        Raises:
            ApiError, OSError, TimeoutError, aiohttp.ClientError: the pod could not be requested.
        """
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        try:
            data = await self._api.request("GET", path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            text, is_known = await self._tell_of_none(namespace, name)
        else:
            return await self._tell_of(data)
        return WhyAnswer(text, is_known, self._unread)

    async def _tell_of(self, data: bytes) -> WhyAnswer:
        found = pods(self._names).reader.read_object(data)
        if found is None:
            text = "The pod exists, but its resources or labels cannot be read, so it is not counted."
            return WhyAnswer(text, is_known=True, unread=self._unread)
        stored = _stored(data)
        summary = await self._summary(found, with_details(summary_of(found, None), data, self._now), stored)
        if summary.phase == "Running" and found.fact.node is not None and found.fact.counted_slices:
            summary = replace(summary, uses=await self._uses(found.fact))
        if found.injected is not None and found.injected.has_claim:
            summary = replace(summary, claim=await self._claim(summary, stored))
        return WhyAnswer(why(summary, self._names), is_known=True, unread=self._unread, claim=summary.claim)

    async def _claim(self, pod: PodSummary, stored: StoredPod) -> ShareClaim | None:
        """Return the claim of a pod, with the cards that it could take, or what Kubernetes reported of it."""
        claim = await read_claim_of_pod(self._api, pod.fact.namespace, stored, self._note)
        if claim is None or pod.fact.is_over or pod.is_terminating:
            return claim
        if claim.state == "waiting" and claim.driver and not pod.gates:
            demands = stored.constraints
            own, known = OwnDemands(demands), await self._nodes(demands)

            def why_not(name: str) -> str:
                node = (known or {}).get(name)
                return own.why_not(node.fact if node is not None else None) if known is not None else ""

            room = await read_room(self._api, claim, kinds_of(stored), why_not, self._note)
            return replace(claim, room=room)
        is_bound = pod.fact.node is not None
        if claim.state in {"no template", "not created"} or (is_bound and pod.phase == "Pending"):
            reason = NOT_PREPARED if is_bound else NOT_CREATED
            return replace(claim, reported=await self._last_event(pod, {reason}))
        return claim

    async def _summary(self, pod: SeenPod, summary: PodSummary, stored: StoredPod) -> PodSummary:
        summary = replace(
            summary,
            not_considered=stored.spec.not_considered,
            asks_model=bool(kinds_of(stored).models),
        )
        if pod.fact.quota_wait is not None:
            summary = replace(summary, quota_line=await self._last_event(summary, {WAITING_FOR_QUOTA}))
        demands = stored.constraints
        is_divided_for = pod.fact.node is None and has_instances(pod.fact)
        known = await self._nodes(demands) if is_divided_for or summary.lacks_slices else None
        own = OwnDemands(demands)
        if is_divided_for:
            changing = [each.fact for each in (known or {}).values() if each.mig and each.mig.change]
            dividing = tuple(sorted([node.name for node in changing if own.accept(node)]))
            division = await self._last_event(summary, {MIG_WAITS})
            summary = replace(summary, division=division, dividing=dividing)
        if not summary.lacks_slices:
            return summary

        def accepts(name: str) -> bool:
            return known is None or (name in known and own.accept(known[name].fact))

        return replace(summary, free=await self._free(pod, accepts))

    async def _last_event(self, pod: PodSummary, reasons: Collection[str]) -> str | None:
        """Return our last Event on a pod. An Event older than the pod belongs to another pod."""
        # Times of Events and pods are whole seconds.
        age = (pod.waited_seconds or 0.0) + 1.0
        found = await self._events(pod.fact.namespace, f"involvedObject.name={pod.fact.name}") or ()
        told = (each for each in found if each.reason in reasons and (each.age_seconds or 0.0) <= age)
        return next((event.message for event in told), None)

    async def _nodes(self, demands: Constraints) -> dict[str, SeenNode] | None:
        """Return the nodes by name, to compare with a pod's own demands; None if they cannot be read."""
        try:
            return {each.fact.name: each for each in await list_all(self._api, nodes(self._names))}
        except UNANSWERED as error:
            if _are_own(demands):
                self._note("Nodes, which show where its own nodeSelector and affinity allow it to run", error)
            return None

    async def _free(self, pod: SeenPod, accepts: Callable[[str], bool]) -> FreeNodes | None:
        try:
            views = map(view_of, await list_all(self._api, gpu_ledgers()))
        except UNANSWERED as error:
            self._note("GpuLedgers, which show where slices are free", error)
            return None
        fact, known = pod.fact, [view for view in views if view is not None]
        with_agent = await self._with_agent() if pod.is_limited_by_agent else None
        wanted = Wanted(amounts_of(fact), fact.memory_values, fact.models, with_agent is not None)
        return free_nodes(known, wanted, accepts, with_agent or ())

    async def _with_agent(self) -> Collection[str] | None:
        """Names of nodes whose agent reports that it serves; None if that cannot be read."""
        try:
            return {report.node for report in await list_all(self._api, gpu_nodes()) if report.is_registered}
        except UNANSWERED as error:
            self._note("GpuNodes, which show where an agent runs", error)
            return None

    async def _uses(self, pod: PodFact) -> tuple[str, ...]:
        """Return what a pod uses; empty if its node's agent does not measure it, or if it may not be read."""
        path = f"{GPU_NODES_PATH}/{quote(pod.node or '', safe='')}"
        try:
            found = gpu_nodes().reader.read_object(await self._api.request("GET", path))
        except UNANSWERED as error:
            # Most users may not read GpuNodes, and most pods run without such a report.
            if getattr(error, "status", None) not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
                self._note("the GpuNode, which shows what it uses", error)
            return ()
        uses = found.use.by_pod if found is not None else {}
        on_gpus = [(gpu, use) for (namespace, name, gpu), use in uses.items() if (namespace, name) == pod.key]
        return tuple([sentence(gpu, use, self._now) for gpu, use in on_gpus if gpu is not None])

    async def _tell_of_none(self, namespace: str, name: str) -> tuple[str, bool]:
        refusals = await self._refusals(namespace, name)
        if refusals is None:
            return why_absent(namespace, name, [], may_read_events=False), False
        if refusals:
            return why_refused(namespace, name, refusals), True
        events = await self._events(namespace, f"involvedObject.name={name}") or ()
        similar = await self._similar(namespace, name)
        return why_absent(namespace, name, events, similar=similar), False

    async def _refusals(self, namespace: str, name: str) -> Sequence[EventSummary] | None:
        """Events of a workload whose pods were rejected, the newest first; None if they cannot be read."""
        found = await self._events(namespace, "type=Warning")
        if found is None:
            return None
        # Controllers of custom kinds have reasons of their own.
        told = [event for event in found if event.reason == REFUSED or is_refusal(event)]
        exact = [event for event in told if is_of(event.name, name)]
        # The workload may be several levels above, such as a RayJob above a RayCluster.
        above = (event for event in told if event.reason != REFUSED)
        return exact or [event for event in above if event.name.startswith(f"{name}-")]

    async def _events(self, namespace: str, selector: str) -> Sequence[EventSummary] | None:
        """Read Events that match a selector, the newest first; None if none can be read."""
        found: list[EventSummary] = []
        more: str | None = ""
        try:
            events = events_of(namespace, selector, self._now)
            async for page, metadata in pages(self._api, events, most=MAX_PAGES):
                found += page
                more = metadata.continue_
            if more:
                self._note("Events", f"there are more than {MAX_PAGES * PAGE}")
        except UNANSWERED as error:
            self._note("Events", error)
            return newest_first(found) or None
        return newest_first(found)

    async def _similar(self, namespace: str, name: str) -> Sequence[str]:
        """Names of pods that a workload of this name may have created; empty if they cannot be listed."""
        pods = objects_at(f"/api/v1/namespaces/{quote(namespace, safe='')}/pods", StoredObject)
        try:
            names = [pod.metadata.name async for page, _ in pages(self._api, pods, most=1) for pod in page]
        except UNANSWERED:
            return []
        return [each for each in names if each.startswith(f"{name}-")]

    def _note(self, what: str, error: Exception | str) -> None:
        self._unread.append(f"{what}: {error}")


def _stored(data: bytes) -> StoredPod:
    """Return what a pod demands; nothing if that cannot be read."""
    try:
        return msgspec.json.decode(data, type=StoredPod)
    except msgspec.MsgspecError:
        return msgspec.convert({"metadata": {}, "spec": {}}, StoredPod)


def _are_own(demands: Constraints) -> bool:
    """Whether a pod demands more of its node than we wrote into it, or than GPU memory and model."""
    keys = {each.key for term in demands.required_terms or () for each in term.match_expressions or ()}
    fields = any(term.match_fields for term in demands.required_terms or ())
    return bool(demands.node_selector) or fields or not keys <= {GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL}


def is_of(object_name: str, asked: str) -> bool:
    """Whether an object is the requested one, was created by it in one step, or would have created it."""
    if object_name == asked:
        return True
    longer, shorter = sorted((object_name, asked), key=len, reverse=True)
    rest = longer.removeprefix(f"{shorter}-")
    return rest != longer and "-" not in rest
