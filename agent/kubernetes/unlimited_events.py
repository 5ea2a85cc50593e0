"""Events on pods with programs that run without their limiter: one for each container and GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from agent.kubernetes.api_server import ApiServerClient, ApiServerError
from agent.parts import Agent
from agent.state import Unlimited
from kube.events import event, event_name
from service.log import get_logger

REASON = "GpuLimitNotLoaded"
SECONDS_BETWEEN_WRITES = 15.0


class UnlimitedEvents:
    """Writes the Events."""

    def __init__(self, api: ApiServerClient, agent: Agent) -> None:
        self._api = api
        self._agent = agent
        self._written: frozenset[Unlimited] = frozenset()
        self._log = get_logger("unlimited programs")

    async def run(self) -> None:
        """Write the Events of containers without their limiter until cancelled."""
        while True:
            seen = self._agent.state.version
            await self.write(self._agent.state.unlimited or ())
            await asyncio.sleep(SECONDS_BETWEEN_WRITES)
            if len(self._written) >= len(self._agent.state.unlimited or ()):
                await self._agent.state.next_version(seen)

    async def write(self, found: Iterable[Unlimited]) -> None:
        """Write an Event for each container without one; failures are retried in the next period."""
        wanted = frozenset(found)
        self._written &= wanted
        for each in sorted(wanted - self._written, key=lambda one: (one.container_id, one.gpu)):
            try:
                path = f"/api/v1/namespaces/{each.namespace}/events"
                await asyncio.to_thread(self._api.create, path, _event(each))
            except ApiServerError as error:
                self._log.warning("an Event is not written", pod=each.pod, error=str(error))
                continue
            self._written |= {each}
            of_pod = {"namespace": each.namespace, "pod": each.pod, "container": each.container}
            self._log.warning("programs run without their limiter", **of_pod, gpu=each.gpu)


def _event(found: Unlimited) -> dict[str, object]:
    involved = {"kind": "Pod", "namespace": found.namespace, "name": found.pod}
    if found.pod_uid:
        involved["uid"] = found.pod_uid
    message = (
        f"container {found.container} uses GPU {found.gpu} without the limiter of its {found.memory_mib} MiB:"
        " use an image with glibc 2.28 or newer that is not Alpine, and no static binaries"
    )
    name = event_name(found.pod, f"{REASON} {found.container_id} {found.gpu}")
    return event(involved, REASON, message, name=name, now=datetime.now(UTC))
