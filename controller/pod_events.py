"""Tells findings as Kubernetes Events on the pods they are about."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from controller.free_nodes import FreeNodesFinder
from controller.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.leadership import Leadership
from controller.ledger_store import State
from controller.metrics import ControllerMetrics
from controller.pod_conditions import Finding, findings, waiting_message
from controller.resources import SeenPod
from modes.resource_names import ResourceNames
from service.log import get_logger

COMPONENT = "fraction-injector"
MOST_UNTOLD = 1000
SECONDS_BETWEEN_EVENTS = 0.1
_NORMAL = frozenset({"PlacedElsewhere", "WaitingPodReplaced"})


class PodEvents:
    """Collects findings all the time, and tells them while this replica leads.

    An Event's name follows from pod and reason, so that no leader tells what another has told.
    """

    def __init__(
        self,
        api: ApiServer,
        state: State,
        leadership: Leadership,
        metrics: ControllerMetrics,
        names: ResourceNames,
    ) -> None:
        self._api = api
        self._state = state
        self._leadership = leadership
        self._metrics = metrics
        self._names = names
        self._free_nodes = FreeNodesFinder(state)
        self._untold: asyncio.Queue[Finding] = asyncio.Queue(MOST_UNTOLD)
        self._told: dict[str, None] = {}
        self._log = get_logger("events")
        state.on_pod(self._note)

    async def run(self) -> None:
        """Tell what is found, from what holds now on, until cancelled."""
        async for keys in self._state.turns.slices(list(self._state.pods)):
            for key in keys:
                if (pod := self._state.pods.get(key)) is not None:
                    self._note(None, pod)
        while self._leadership.leads:
            finding = await self._untold.get()
            try:
                await self._tell(finding)
            except (ApiError, *TRANSPORT_ERRORS) as error:
                self._log.warning("an Event is lost", reason=finding.reason, error=str(error))
            await asyncio.sleep(SECONDS_BETWEEN_EVENTS)

    def _note(self, before: SeenPod | None, after: SeenPod) -> None:
        if not self._leadership.leads:
            return
        for finding in findings(before, after):
            name = _name(finding)
            if name in self._told or self._untold.full():
                continue
            self._told[name] = None
            if len(self._told) > 10 * MOST_UNTOLD:
                del self._told[next(iter(self._told))]
            self._untold.put_nowait(finding)

    async def _tell(self, finding: Finding) -> None:
        message = finding.message or await self._waiting(finding)
        if message is None:
            # It may come to wait for slices yet: the scheduler then says so of the pod again.
            self._told.pop(_name(finding), None)
            return
        body = event(finding, message, lambda: datetime.now(UTC))
        try:
            path = f"/api/v1/namespaces/{finding.namespace}/events"
            await self._api.request("POST", path, body=body)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            self._metrics.events.labels(finding.reason).inc()

    async def _waiting(self, finding: Finding) -> str | None:
        """What a pod waits for at this moment; None if it no longer does."""
        pod = self._state.pods.get((finding.namespace, finding.pod))
        if pod is None or pod.fact.node is not None:
            return None
        owner = pod.injected.owner if pod.injected is not None else None
        return waiting_message(pod.fact, await self._free_nodes.find(pod.fact), self._names, owner)


def event(finding: Finding, message: str, now: Callable[[], datetime]) -> dict[str, Any]:
    """Make the Event as the core/v1 API takes it."""
    time = now().strftime("%Y-%m-%dT%H:%M:%SZ")
    pod = {"apiVersion": "v1", "kind": "Pod", "namespace": finding.namespace, "name": finding.pod}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _name(finding), "namespace": finding.namespace},
        "involvedObject": {**pod, "uid": finding.uid},
        "type": "Normal" if finding.reason in _NORMAL else "Warning",
        "reason": finding.reason,
        "message": message,
        "source": {"component": COMPONENT},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


def _name(finding: Finding) -> str:
    digest = hashlib.sha256(f"{finding.uid} {finding.reason}".encode()).hexdigest()[:16]
    return f"{finding.pod[:200]}.{digest}"
