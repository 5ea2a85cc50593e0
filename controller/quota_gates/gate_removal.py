"""Requests to the API server that remove the gate of a waiting pod, and report it."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from cluster.event_writer import EventWriter
from cluster.kube_client import CHANGED_MEANWHILE, JSON_PATCH, ApiError, ApiServer
from controller.pods.pending_pod import read_pod
from controller.pods.pod_findings import Finding
from controller.publish.metrics import ControllerMetrics
from controller.publish.pod_events import pod_event
from kube.names import QUOTA_GATE
from ledger.use import seconds_since
from modes.facts import PodFact, PodKey, QuotaWait
from service.log import get_logger

WRITE_SECONDS = 5.0
Outcome = Literal["removed", "still there", "gone"]


class GateRemoval:
    """Removes gates with the rights of this process."""

    def __init__(self, api: ApiServer, events: EventWriter, metrics: ControllerMetrics) -> None:
        self._api = api
        self._events = events
        self._metrics = metrics
        self._log = get_logger("quota gates")

    async def remove(self, key: PodKey, wait: QuotaWait) -> Outcome:
        """Remove the gate of this pod, and of no other one of its name.

        Raises:
            ApiError: the API server rejected it, or failed (status 500 and more: the outcome is unknown).
            MsgspecError, OSError, TimeoutError, aiohttp.ClientError: the outcome is unknown.
        """
        path = f"/api/v1/namespaces/{key[0]}/pods/{key[1]}"
        body = removal_patch(wait)
        try:
            await self._api.request("PATCH", path, body=body, content_type=JSON_PATCH, seconds=WRITE_SECONDS)
        except ApiError as error:
            if error.status not in CHANGED_MEANWHILE:
                raise
            return await self._now(key, wait)
        return "removed"

    async def _now(self, key: PodKey, wait: QuotaWait) -> Outcome:
        """Whether the gate of a pod that changed meanwhile is still there."""
        stored = await read_pod(self._api, key, wait.uid, seconds=WRITE_SECONDS)
        if stored is None:
            return "gone"
        gates = msgspec.convert(stored.spec.scheduling_gates or [], list[dict[str, Any]])
        return "still there" if any(gate.get("name") == QUOTA_GATE for gate in gates) else "removed"

    def report(self, pod: PodFact, wait: QuotaWait) -> None:
        """Log that a pod no longer waits, and write it as an Event."""
        waited = int(seconds_since(wait.since, datetime.now(UTC)))
        message = f"waited {waited} s for its quota, which has room now: it can be scheduled"
        self._log.info("a pod no longer waits", namespace=pod.namespace, pod=pod.name, waited=waited)
        finding = Finding(pod.namespace, pod.name, wait.uid, "QuotaHasRoom")
        written = self._metrics.events.labels(finding.reason).inc
        self._events.write(pod_event(finding, message, datetime.now(UTC)), written)


def removal_patch(wait: QuotaWait) -> list[dict[str, object]]:
    """Return the JSON Patch that removes our gate, if this pod still has it at this position."""
    gate = f"/spec/schedulingGates/{wait.gate}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": wait.uid},
        {"op": "test", "path": f"{gate}/name", "value": QUOTA_GATE},
        {"op": "remove", "path": gate},
    ]


def is_rejection(error: Exception) -> bool:
    """Whether the API server certainly changed nothing."""
    if not isinstance(error, ApiError) or error.status == HTTPStatus.REQUEST_TIMEOUT:
        return False
    return HTTPStatus.BAD_REQUEST <= error.status < HTTPStatus.INTERNAL_SERVER_ERROR
