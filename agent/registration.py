"""Keeps a resource name registered: through restarts of the kubelet, silence, and other plugins."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Collection
from pathlib import Path

import grpc

from agent.device_plugin import DevicePlugin
from agent.kubelet import Identity, KubeletError
from agent.kubelet_api import deviceplugin_pb2
from agent.kubelet_api.services import serve
from agent.parts import Agent
from service.background import beat
from service.log import get_logger
from service.retry import Backoff

POLL_SECONDS = 0.2
STREAM_SECONDS = 10.0
"""Maximum time from a registration to the kubelet's call of ListAndWatch."""
SETTLE_SECONDS = 3.0
"""Time after a registration in which the kubelet may not count its devices yet."""
NAME_LENGTH = 16
"""Characters of a resource name in its socket's path, which may have 107; MicroK8s' folder has 57."""
CALM_SECONDS = 300.0
"""Time after which a name that another plugin took is registered again at once."""
_PREFIX = "clearml-injector-"
_OPTIONS = (("grpc.so_reuseport", 0), ("grpc.max_concurrent_streams", 100))


def remove_stale_sockets(folder: Path) -> None:
    """Remove the sockets of an agent that was killed; no other agent runs on the node."""
    for path in folder.glob(f"{_PREFIX}*.sock"):
        with contextlib.suppress(OSError):  # harmless: our sockets have unique names
            path.unlink(missing_ok=True)


class Registrar:
    """Serves one resource on its own socket, and keeps it registered.

    When an older stream of a name ends, a kubelet before 1.37 drops every registration of that name; newer
    kubelets keep the others, call any of them, and accept no socket twice. So each registration uses a new
    server on a new socket, after the previous one has ended.
    """

    def __init__(self, plugin: DevicePlugin, agent: Agent) -> None:
        self.plugin = plugin
        self._taken = asyncio.Event()
        """Set when the kubelet counts other devices under the name."""
        self._taken_at = float("-inf")
        self._retake = Backoff(first_seconds=1.0, max_seconds=60.0)
        self._kubelet = agent.kubelet
        self._state = agent.state
        self._metrics = agent.metrics
        self._registered_at: float | None = None
        self._said: str | None = None
        """The last reason in the log why it is not registered."""
        self._retry = Backoff(first_seconds=0.05, max_seconds=2.0)
        self._log = get_logger("registration")

    @property
    def is_settled(self) -> bool:
        """Whether it has been registered long enough for the kubelet to count its devices."""
        since = self._registered_at
        return since is not None and asyncio.get_running_loop().time() - since >= SETTLE_SECONDS

    def compare(self, counted: Collection[str]) -> None:
        """Register the name again if the kubelet counts other devices under it: it uses the newest plugin.

        While another plugin does the same, this is less and less often: after each change the scheduler sees
        a node without slices for a moment.
        """
        ours = self.plugin.healthy_ids
        now = asyncio.get_running_loop().time()
        # While health changes, only some of ours may be counted, or none may be healthy.
        if not ours or not ours.isdisjoint(counted) or not self.is_settled:
            if now - self._taken_at > CALM_SECONDS:
                self._retake.reset()
        elif now - self._taken_at >= self._retake.next():
            self._taken_at = now
            self._taken.set()

    async def run(self) -> None:
        """Register, and again whenever the registration ends, until cancelled."""
        while True:
            beat()
            identity = self._kubelet.identity()
            if identity is None:
                self._say_missing("the kubelet is away: its socket is not there")
                await asyncio.sleep(POLL_SECONDS)
                continue
            try:
                why = await self._serve_once(identity)
                self._say_missing(why, "registration ended")
            except (KubeletError, OSError, RuntimeError) as error:
                self._metrics.registered(self.plugin.resource, well=False)
                self._say_missing(str(error))
            if self._kubelet.identity() == identity:
                await asyncio.sleep(self._retry.next())

    async def _serve_once(self, identity: Identity) -> str:
        """Serve and register; return why the registration ended."""
        plugin = self.plugin
        plugin.stream_opened.clear()
        self._taken.clear()
        name = re.sub(r"[^A-Za-z0-9-]", "-", plugin.resource)
        path = self._kubelet.plugins / f"{_PREFIX}{name[-NAME_LENGTH:]}-{secrets.token_hex(3)}.sock"
        server = grpc.aio.server(options=_OPTIONS)
        serve(plugin, deviceplugin_pb2, "DevicePlugin", server)
        server.add_insecure_port(f"unix:{path}")
        try:
            await server.start()
            await self._kubelet.register(plugin.resource, path.name, plugin.options)
            await self._until_streaming()
            self._say_registered()
            return await self._until_over(identity, path)
        finally:
            self._registered_at = None
            await server.stop(None)
            path.unlink(missing_ok=True)

    async def _until_streaming(self) -> None:
        try:
            async with asyncio.timeout(STREAM_SECONDS):
                await self.plugin.stream_opened.wait()
        except TimeoutError:
            raise KubeletError("the kubelet registered it, but does not ask for its devices") from None

    async def _until_over(self, identity: Identity, path: Path) -> str:
        while True:
            beat()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._taken.wait()
                    return "the kubelet counts another plugin's devices under this name"
            if self._kubelet.identity() != identity or not path.exists():  # noqa: ASYNC240 a socket in memory
                return "the kubelet started again"
            if not self.plugin.streams:
                return "the kubelet closed the stream of devices"
            if self.is_settled:
                self._retry.reset()

    def _say_registered(self) -> None:
        self._registered_at = asyncio.get_running_loop().time()
        self._said = None
        self._metrics.registered(self.plugin.resource, well=True)
        self._state.set_registration(self.plugin.resource, None)
        self._log.info("registered", resource=self.plugin.resource)

    def _say_missing(self, why: str, event: str = "not registered") -> None:
        if why != self._said:
            self._log.warning(event, resource=self.plugin.resource, reason=why)
        self._said = why
        self._metrics.set_registered(self.plugin.resource, well=False)
        self._state.set_registration(self.plugin.resource, why)
