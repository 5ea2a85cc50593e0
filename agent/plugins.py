"""All device plugins of a node: what they need before they register, and what runs next to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from agent.cdi import CLAIM_FILE_PREFIX, SliceSpecifications
from agent.device_plugin import DevicePlugin
from agent.dra.checkpoint import PreparedClaims
from agent.dra.specifications import claims_with_files
from agent.files import boot_id
from agent.held_slices import HeldSlices
from agent.kubelet import KubeletError
from agent.kubernetes.api_server import ApiServerClient, ApiServerError
from agent.kubernetes.resource_slices import ResourceSlices
from agent.other_plugins import OtherPlugins
from agent.parts import Agent
from agent.preparation import NotPreparedError, Preparation
from agent.recurring_error import RecurringError
from agent.registration import Registrar, remove_stale_sockets
from service.background import beat
from service.log import get_logger

INDEX = "{index}"
PERIOD_SECONDS = 5.0
"""Between two looks at what the kubelet counts."""
LOOK_SECONDS = 1.0
"""How long an agent that starts waits for what the kubelet counts, and for what DRA drivers offer."""
DRIVERS_SECONDS = 300.0
"""Between two looks at what DRA drivers offer: every agent asks the API server."""


class DevicePlugins:
    """Prepares the node, then keeps every resource registered.

    Without `api`, it does not look for what DRA drivers offer too.
    """

    def __init__(self, agent: Agent, preparation: Preparation, api: ApiServerClient | None) -> None:
        self._agent = agent
        self._slices = ResourceSlices(api, agent.options.node or "") if api is not None else None
        self._preparation = preparation
        self.held = HeldSlices(agent)
        self._log = get_logger("device plugins")
        self._not_seen = RecurringError(
            self._log.warning, "cannot see what DRA drivers offer", ApiServerError
        )
        name, gpus = agent.policy.resource, agent.state.gpus
        if INDEX in name:
            self._offers = {name.replace(INDEX, str(gpu.index)): [gpu] for gpu in gpus}
        else:
            self._offers = {name: list(gpus)} if gpus else {}
        for resource in self._offers:
            agent.metrics.add_resource(resource)
        self._others = OtherPlugins(agent, self._offers)

    async def run(self) -> None:
        """Register when nothing is missing any more, and stay registered until cancelled."""
        try:
            await self._run()
        finally:
            self._preparation.release()

    async def _run(self) -> None:
        agent, preparation = self._agent, self._preparation
        specifications = await preparation.until_done(self._offers, self._finish)
        await self.held.shares_of(None)  # withdraws cards with slices of another size before any is offered
        await self._look_for_others()
        remove_stale_sockets(agent.kubelet.plugins)
        plugins = [
            DevicePlugin(resource, gpus, agent, preparation, specifications)
            for resource, gpus in self._offers.items()
        ]
        registrars = [Registrar(plugin, agent) for plugin in plugins]
        async with asyncio.TaskGroup() as group:
            for registrar in registrars:
                group.create_task(registrar.run())
            group.create_task(self._compare(registrars))
            group.create_task(self._follow_drivers())
            group.create_task(preparation.follow(partial(self._write_again, specifications)))

    def _finish(self) -> SliceSpecifications:
        """Return the CDI devices of shares, on a prepared node."""
        options, policy = self._agent.options, self._agent.policy
        if options.divide and INDEX not in policy.resource:
            raise NotPreparedError(
                "some cards shall stay whole (agent.divide), and a pool names all alike: use mode per-gpu"
            )
        self._refuse_claims()
        directory = Path(options.cdi_dirs[-1])
        specifications = SliceSpecifications(directory, policy, options.state_dir, self._preparation.driver)
        for gpu in self._agent.state.gpus:
            specifications.write(gpu)
        return specifications

    def _refuse_claims(self) -> None:
        """Refuse to offer cards that pods of this boot have by DRA, from this agent before it changed.

        Raises:
            NotPreparedError: pods have claims, or whether they do is not known.
        """
        options = self._agent.options
        cdi = Path(options.cdi_dirs[-1])
        prepared = PreparedClaims(self._agent.state_dir, boot_id(Path(options.proc)))
        if not prepared.is_of_this_boot:
            return
        if claims_with_files(cdi) - prepared.claims.keys():
            raise NotPreparedError(
                "which pods have this node's GPUs by claims is not known: drain the node with"
                f" agent.offer: dra, or restart it and remove {prepared.path}"
                f" and {cdi / CLAIM_FILE_PREFIX}*.json"
            )
        if claims := prepared.claims:
            first = next(iter(claims.values()))
            raise NotPreparedError(
                f"pods have {len(claims)} claims of this node's GPUs, such as {first.namespace}/{first.name}:"
                " drain the node with agent.offer: dra, or restart it, before its agent is a device plugin"
            )

    async def _write_again(self, specifications: SliceSpecifications) -> None:
        """Write by which hooks the driver limits containers that start from now on."""
        for gpu in self._agent.state.gpus:
            specifications.write(gpu)

    async def _look_for_others(self) -> None:
        """Withdraw cards that another plugin has or had, before any is offered; later looks repeat it."""
        kubelet = self._agent.kubelet
        with contextlib.suppress(KubeletError, TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                self._others.look(await kubelet.allocatable(), await kubelet.holders())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._look_at_drivers()

    async def _compare(self, registrars: Sequence[Registrar]) -> None:
        """Compare the devices that the kubelet counts with what is registered, and with other plugins'."""
        kubelet = self._agent.kubelet
        failed = RecurringError(
            self._log.warning, "cannot see which devices the kubelet counts", KubeletError
        )
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            beat()
            settled = [each for each in registrars if each.is_settled]
            with failed:
                counted = await kubelet.allocatable()
                self._others.look(counted, await kubelet.holders())
                for each in settled:
                    each.compare(counted.get(each.plugin.resource, ()))

    async def _follow_drivers(self) -> None:
        while self._slices is not None:
            await self._look_at_drivers()
            await asyncio.sleep(DRIVERS_SECONDS)

    async def _look_at_drivers(self) -> None:
        if self._slices is not None:
            with self._not_seen:
                await self._others.look_at_drivers(self._slices)
