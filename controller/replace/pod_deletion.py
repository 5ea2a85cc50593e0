"""Requests to the API server to replace a waiting pod: delete it, write the Event."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus

from cluster.event_writer import EventWriter
from cluster.kube_client import ApiError, ApiServer
from cluster.leadership import Leadership
from controller.pods.pending_pod import StoredPod
from controller.pods.pod_findings import Finding
from controller.publish.metrics import ControllerMetrics
from controller.publish.pod_events import pod_event
from modes.facts import PodKey
from service.log import get_logger

WRITE_SECONDS = 5.0


class PodDeletion:
    """Deletes pods while this replica leads."""

    def __init__(self, api: ApiServer, leadership: Leadership, metrics: ControllerMetrics) -> None:
        self._api = api
        self._events = EventWriter(api)
        self._leadership = leadership
        self._metrics = metrics
        self._log = get_logger("replacement")

    @property
    def leads(self) -> bool:
        """Whether this replica may delete now."""
        return self._leadership.leads

    async def delete(self, key: PodKey, stored: StoredPod) -> bool:
        """Delete this version of a pod; return False if it has changed, is gone, or another replica leads.

        Raises:
            ApiError, OSError, TimeoutError, aiohttp.ClientError: it is not known whether it was deleted.
        """
        if not self.leads:
            return False
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": stored.preconditions}
        path = f"/api/v1/namespaces/{key[0]}/pods/{key[1]}"
        try:
            await self._api.request("DELETE", path, body=body, seconds=WRITE_SECONDS)
        except ApiError as error:
            if error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise
            return False
        return True

    async def report_deletion(self, key: PodKey, uid: str, message: str) -> None:
        """Log why a pod was deleted, and try to write it as an Event."""
        namespace, name = key
        self._log.info("a waiting pod is deleted", namespace=namespace, pod=name, why=message)
        finding = Finding(namespace, name, uid, "WaitingPodReplaced")
        if await self._events.write(pod_event(finding, message, datetime.now(UTC))):
            self._metrics.events.labels(finding.reason).inc()
