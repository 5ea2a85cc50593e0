"""Requests to the API server for one idle pod: Events, and the eviction itself."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus

from cluster.event_writer import EventWriter, post_event
from cluster.kube_client import ApiError, ApiServer
from cluster.leadership import Leadership
from controller.pods.pending_pod import read_pod
from controller.pods.pod_findings import Finding, Reason
from controller.policies.idle_shares import IdlePod
from controller.publish.metrics import ControllerMetrics
from controller.publish.pod_events import pod_event
from ledger.use import idle_text
from service.log import get_logger

WRITE_SECONDS = 5.0


class IdleEviction:
    """Writes Events on idle pods and evicts them, with the rights of this process.

    `warn` and `evict` raise ApiError, MsgspecError, OSError, TimeoutError or aiohttp.ClientError if they do
    not know the outcome.
    """

    def __init__(
        self, api: ApiServer, events: EventWriter, leadership: Leadership, metrics: ControllerMetrics
    ) -> None:
        self._api = api
        self._events = events
        self._leadership = leadership
        self._metrics = metrics
        self._log = get_logger("idle shares")

    def tell(self, pod: IdlePod) -> None:
        """Write an Event on a pod that may stay idle, once for each time that it is idle."""
        message = f"{_idle(pod)} while it holds a share of a GPU: delete it if it is not needed"
        self._write(pod, "ShareIdle", message, str(pod.idle_since))

    async def warn(self, pod: IdlePod) -> None:
        """Write an Event on a pod before it is evicted, once for each time that it is idle."""
        grace = idle_text(pod.rule.grace_seconds)
        held = f"{_idle(pod)} while it holds a share of a GPU"
        message = f"{held}: it is evicted after another {grace}, unless one runs"
        if await post_event(self._api, _event(pod, "IdleShareWarning", message, str(pod.idle_since))):
            self._metrics.events.labels("IdleShareWarning").inc()

    async def evict(self, pod: IdlePod) -> None:
        """Evict a pod, if it still is the same one and nobody has deleted it."""
        stored = await read_pod(self._api, pod.key, pod.uid, seconds=WRITE_SECONDS)
        if stored is None or stored.is_ending or not self._leadership.leads:
            return
        namespace, name = pod.key
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        try:
            await self._api.request("POST", path, body=body, seconds=WRITE_SECONDS)
        except ApiError as error:
            if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                self._say_kept(pod, error)
            elif error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise
            return
        self._log.info("an idle pod is evicted", pod="/".join(pod.key), idle_seconds=pod.seconds)
        self._write(pod, "IdleShareEvicted", f"{_idle(pod)}, even after the warning: the pod is evicted", "")

    def _say_kept(self, pod: IdlePod, error: ApiError) -> None:
        """Say why a pod is not evicted yet, once for each time that it is idle."""
        message = f"{_idle(pod)}, but it is not evicted yet: {error}"
        if self._write(pod, "IdleShareKept", message, str(pod.idle_since)):
            self._log.info("an idle pod is not evicted yet", pod="/".join(pod.key), error=str(error))

    def _write(self, pod: IdlePod, reason: Reason, message: str, occasion: str) -> bool:
        written = self._metrics.events.labels(reason).inc
        return self._events.write(_event(pod, reason, message, occasion), written)


def _idle(pod: IdlePod) -> str:
    return f"no kernel ran for {idle_text(pod.seconds)}"


def _event(pod: IdlePod, reason: Reason, message: str, occasion: str) -> dict[str, object]:
    return pod_event(Finding(*pod.key, pod.uid, reason), message, datetime.now(UTC), occasion)
