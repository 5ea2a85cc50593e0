"""Keeps the GpuNode of this node up to date."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.divide import is_divided
from agent.files import boot_id
from agent.gpu import Gpu, GpuSourceError
from agent.kubernetes.api_server import ApiServerClient, ApiServerError
from agent.kubernetes.gpu_node import manifest
from agent.parts import Agent
from kube.names import GPU_NODES_PATH
from service.log import get_logger
from service.retry import Backoff

SECONDS_BETWEEN_WRITES = 2.0
"""Changes in this time are written together."""
MAX_RETRY_SECONDS = 60.0
SECONDS_UNTIL_FIRST_WRITE = 5.0
"""An agent that starts registers in this time, so that its first report does not hold the node."""
SECONDS_UNTIL_WRITTEN_AGAIN = 600.0
"""Without a change: the object, or the Node that owns it, may have been deleted and created again."""
ENDED = "the agent has ended: look for its pod on the node"


class NodeWriter:
    """Writes one object when it changes."""

    def __init__(self, api: ApiServerClient, node: str, agent: Agent) -> None:
        self._api = api
        self._node = node
        self._agent = agent
        self._uid = ""
        self._registrations = 0
        """Registrations with the kubelet when the Node was last read."""
        self._boot_id = boot_id(Path(agent.options.proc))
        self._written: dict[str, Any] | None = None
        self._sent: dict[str, Any] | None = None
        """The last object that was, or may have been, written."""
        self._one_at_a_time = threading.Lock()
        self._backoff = Backoff(first_seconds=1.0, max_seconds=MAX_RETRY_SECONDS)
        self._log = get_logger("node facts")

    async def run(self) -> None:
        """Write until cancelled; then write that nothing is registered any more."""
        try:
            await self._follow()
        finally:
            await self._write_last()

    async def _follow(self) -> None:
        """Write changes; retry failures less and less often."""
        await self._agent.state.until_served(SECONDS_UNTIL_FIRST_WRITE)
        while True:
            seen = self._agent.state.version
            try:
                await self._write()
            except (ApiServerError, GpuSourceError) as error:
                self._log.warning("node facts are not written", error=str(error))
                await asyncio.sleep(self._backoff.next())
                continue
            self._backoff.reset()
            await asyncio.sleep(SECONDS_BETWEEN_WRITES)
            try:
                async with asyncio.timeout(SECONDS_UNTIL_WRITTEN_AGAIN):
                    await self._agent.state.next_version(seen)
            except TimeoutError:
                self._uid, self._written = "", None

    async def _write(self) -> None:
        gpus = await asyncio.to_thread(self._agent.source.list_gpus)
        if self._registrations != self._agent.state.registrations:
            # A restarted kubelet may have created the Node again; the object was deleted with the old Node.
            self._registrations = self._agent.state.registrations
            self._uid, self._written = "", None
        if not self._uid:
            self._uid = await asyncio.to_thread(self._uid_of_node)
        body = self._body(gpus)
        if body != self._written:
            self._sent = body
            await asyncio.to_thread(self._apply, body)
            self._written = body
            self._log.info("node facts written", gpus=len(gpus), registered=body["status"]["registered"])

    async def _write_last(self) -> None:
        """Write that the kubelet no longer counts this agent's slices: another plugin may offer the names."""
        if self._sent is None or not self._sent["status"]["registered"]:
            return
        status = {**self._sent["status"], "registered": False, "missing": ENDED}
        try:
            await asyncio.to_thread(self._apply, {**self._sent, "status": status})
        except ApiServerError as error:
            self._log.warning("that the agent has ended is not written", error=str(error))

    def _apply(self, body: dict[str, Any]) -> None:
        # A cancelled write continues in its thread, and the last write must come after it.
        with self._one_at_a_time:
            self._api.apply(f"{GPU_NODES_PATH}/{self._node}", body)

    def _body(self, gpus: Sequence[Gpu]) -> dict[str, Any]:
        options, limiter = self._agent.options, self._agent.policy.limiter
        whole = {gpu.uuid for gpu in gpus if not is_divided(gpu, options.divide)}
        state, boot = self._agent.state, self._boot_id
        return manifest(
            self._node, self._uid, gpus, state, boot, whole=whole, offer=options.offer, limiter=limiter
        )

    def _uid_of_node(self) -> str:
        metadata = self._api.get(f"/api/v1/nodes/{self._node}").get("metadata") or {}
        return str(metadata.get("uid", ""))
