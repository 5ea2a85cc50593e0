"""Offers the cards of a node by DRA: serves the kubelet, and publishes the ResourceSlice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import grpc

from agent.dra.checkpoint import PreparedClaim, PreparedClaims
from agent.dra.claimed_shares import ClaimedShares
from agent.dra.plugin import DraPlugin
from agent.dra.resource_slice import OfferedCard, device_number, devices_of
from agent.dra.specifications import ClaimSpecifications
from agent.files import boot_id
from agent.held_slices import HeldSlices
from agent.kubelet import KubeletError
from agent.kubelet_api import dra_pb2, pluginregistration_pb2
from agent.kubelet_api.services import serve
from agent.kubernetes.api_server import ApiServerClient, ApiServerError
from agent.kubernetes.resource_slices import ResourceSlices
from agent.other_plugins import OtherPlugins
from agent.parts import Agent
from agent.preparation import Preparation
from agent.recurring_error import RecurringError
from agent.shares import RefusedError
from kube.dra import DRIVER
from service.background import beat
from service.log import get_logger
from service.retry import Backoff

POLL_SECONDS = 1.0
LOOK_SECONDS = 5.0
"""Between two looks at other device plugins, and at the limiter's files: the kubelet calls no driver before a
container starts again."""
MOST_SECONDS = 60.0
"""Between two looks at the slice: a kubelet that restarts removes it, and so may an admin."""
_OPTIONS = (("grpc.so_reuseport", 0), ("grpc.max_concurrent_streams", 100))
_NO_SHARES = (
    "the API server drops allowMultipleAllocations: turn on its feature gate DRAConsumableCapacity"
    " (Kubernetes 1.36 or newer); until then a share takes a whole card"
)


class DraOffer:
    """Prepares the node, then keeps its cards offered."""

    def __init__(self, agent: Agent, preparation: Preparation, api: ApiServerClient) -> None:
        self._agent = agent
        self._state = agent.state
        self._preparation = preparation
        self._prepared: PreparedClaims | None = None
        """None until the node is prepared."""
        slices = HeldSlices(agent, are_offered=False)
        self.held = ClaimedShares(self._state, slices, agent.policy.slices_per_gpu, self._claims)
        self._api = api
        self._node = agent.options.node or ""
        self._slices = ResourceSlices(api, self._node)
        self._others = OtherPlugins(agent, ())
        root = Path(agent.options.kubelet_dir)
        self._socket = root / "plugins" / DRIVER / "dra.sock"
        self._registration = root / "plugins_registry" / f"{DRIVER}-reg.sock"
        self._cordoned: frozenset[int] = frozenset()
        """Numbers of the cards that the Node's annotation keeps new pods from."""
        self._registered: str | None = "not registered with the kubelet yet"
        """Why the kubelet has not registered the driver; None if it has."""
        self._published: str | None = "its ResourceSlice is not published yet"
        """Why no share can be scheduled; None if the slice is there."""
        self._can_taint = True
        self._again = asyncio.Event()
        """Set when the slice must be looked at."""
        self._unknown: str | None = "the kubelet has not reported its allocations yet"
        """Why it is not known what device plugins offer and pods have from them; None once it was."""
        self._log = get_logger("DRA driver")
        agent.metrics.add_resource(DRIVER)

    async def run(self) -> None:
        """Offer the cards when nothing is missing any more, until cancelled."""
        try:
            plugin = await self._preparation.until_done([DRIVER], self._finish)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._serve(plugin))
                group.create_task(self._publish())
                group.create_task(self._look_on())
                group.create_task(self._preparation.follow(plugin.restore_while_serving))
        finally:
            self._preparation.release()

    def _finish(self) -> DraPlugin:
        """Return what answers the kubelet, on a prepared node, with the claims of before."""
        options = self._agent.options
        gpus = {gpu.uuid: gpu for gpu in self._state.gpus}
        directory = Path(options.cdi_dirs[-1])
        specifications = ClaimSpecifications(
            directory, self._agent.policy, options.state_dir, gpus, self._preparation.driver
        )
        boot = boot_id(Path(options.proc))
        self._prepared = PreparedClaims(self._agent.state_dir, boot)
        plugin = DraPlugin(
            str(self._socket), self._agent, self._api, self._prepared, specifications, self._preparation
        )
        plugin.restore()
        plugin.on_registration = self._take_registration
        return plugin

    def _claims(self) -> Collection[PreparedClaim]:
        return self._prepared.claims.values() if self._prepared is not None else ()

    async def _serve(self, plugin: DraPlugin) -> None:
        """Serve on sockets that exist: the registration ends when one is removed."""
        while True:
            try:
                async with self._served(plugin):
                    while self._socket.exists() and self._registration.exists():
                        beat()
                        await asyncio.sleep(POLL_SECONDS)
                self._take_registration("its socket was removed")
            except (OSError, RuntimeError) as error:
                self._take_registration(str(error))
                await asyncio.sleep(POLL_SECONDS)

    @contextlib.asynccontextmanager
    async def _served(self, plugin: DraPlugin) -> AsyncIterator[None]:
        server = grpc.aio.server(options=_OPTIONS)
        serve(plugin, dra_pb2, "DRAPlugin", server)
        serve(plugin, pluginregistration_pb2, "Registration", server)
        # The kubelet's watcher of plugins reads the second one, and must find the first then.
        for socket in (self._socket, self._registration):
            socket.parent.mkdir(parents=True, exist_ok=True)
            socket.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{socket}")
        try:
            await server.start()
            yield
        finally:
            # Without it, the kubelet calls nobody any more.
            self._registration.unlink(missing_ok=True)
            await server.stop(None)
            self._socket.unlink(missing_ok=True)

    def _take_registration(self, why: str | None) -> None:
        if why is None:
            self._log.info("registered", driver=DRIVER)
            self._again.set()  # a kubelet that starts removes the slices of its node
        elif why != self._registered:
            self._log.warning("not registered", driver=DRIVER, reason=why)
        self._agent.metrics.registered(DRIVER, well=why is None)
        self._registered = why
        self._show()

    def _show(self) -> None:
        self._state.set_registration(DRIVER, self._registered or self._published)

    async def _publish(self) -> None:
        """Publish cards and health whenever they change, or something else removed the slice."""
        wait = Backoff(first_seconds=1.0, max_seconds=MOST_SECONDS)
        while True:
            beat()
            if self._again.is_set():
                self._again.clear()
                wait.reset()
            seen = self._state.version
            await self._publish_once()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait.next()):
                    await self._until_changed(seen)

    async def _until_changed(self, seen: int) -> None:
        devices = self._devices()
        while self._devices() == devices and not self._again.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    seen = await self._state.next_version(seen)

    async def _publish_once(self) -> None:
        try:
            await self._look()
            self._published = self._unknown or await self._publish_devices()
        except ApiServerError as error:
            if self._published != str(error):
                self._log.warning("the ResourceSlice is not published", error=str(error))
            self._published = str(error)
        self._show()

    async def _publish_devices(self) -> str | None:
        """Publish the devices; return why no share can be scheduled."""
        await self._others.look_at_drivers(self._slices)
        self._cordoned = await asyncio.to_thread(self._slices.cordoned)
        kept = await asyncio.to_thread(self._slices.publish, self._devices())
        if self._can_taint and not kept.has_taints:
            self._log.warning(
                "the API server drops taints (feature gate DRADeviceTaints): unhealthy cards are left out"
            )
            self._can_taint = False
            self._again.set()
        if kept.has_shares:
            return None
        if self._published != _NO_SHARES:
            self._log.error("no shares", reason=_NO_SHARES)
        return _NO_SHARES

    def _devices(self) -> list[dict[str, Any]]:
        """Return the devices to publish, without cards that something else offers too or without memory."""
        unhealthy, offered = self._state.unhealthy, []
        for gpu in self._state.gpus:
            is_cordoned, why = device_number(gpu) in self._cordoned, unhealthy.get(gpu.uuid)
            is_tainted = why is not None or is_cordoned
            is_left_out = gpu.uuid in self._state.elsewhere or gpu.usable_mib < 1
            if not is_left_out and (self._can_taint or not is_tainted):
                offered.append(OfferedCard(gpu, why, is_cordoned))
        return devices_of(offered)

    async def _look_on(self) -> None:
        """Look on at other plugins, and put the limiter's files back: containers may start again any time."""
        failed = RecurringError(self._log.error, "containers that start again have no limit", RefusedError)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look()
            with failed:
                await self._preparation.check_files()

    async def _look(self) -> None:
        """Withdraw cards that a device plugin offers, or that a pod has from one."""
        try:
            counted, holders = await self._agent.kubelet.allocatable(), await self._agent.kubelet.holders()
        except KubeletError as error:
            if self._unknown is not None:
                self._unknown = f"the kubelet has not reported its allocations: {error}"
            return
        self._others.look(counted, holders)
        if self._unknown is not None:
            self._unknown = None
            self._again.set()
