"""All device plugins of a node: what they need before they register, and what runs next to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from agent.allocate_response import Allocator
from agent.boot import boot_id
from agent.cdi import CLAIM_FILE_PREFIX, CdiError, SliceSpecifications, held_slices
from agent.device_nodes import DeviceNodes
from agent.device_plugin import DevicePlugin
from agent.dra.checkpoint import PreparedClaims
from agent.dra.specifications import claims_with_files
from agent.gpu import Gpu
from agent.held_slices import HeldSlices
from agent.kubelet import Kubelet, KubeletError
from agent.kubelet_checkpoint import Checkpoint
from agent.metrics import AgentMetrics
from agent.options import AgentOptions
from agent.other_plugins import OtherPlugins
from agent.ownership import Ownership
from agent.preparation import NotPreparedError, Preparation
from agent.registration import Registrar, remove_stale_sockets
from agent.settings import AgentPolicy
from agent.shares import uuid_of
from agent.state import AgentState
from service.log import get_logger

INDEX = "{index}"
LOOK_SECONDS = 1.0
"""How long an agent that starts waits for what the kubelet counts, and for what DRA drivers offer."""
DRIVERS_SECONDS = 300.0
"""Between two looks at what DRA drivers offer: every agent asks the API server."""
LookAtDrivers = Callable[[], Awaitable[Mapping[str, str] | None]]
"""Returns why cards must be withdrawn because a DRA driver offers them too, by UUID; None if unknown."""


class DevicePlugins:
    """Prepares the node, then keeps every resource registered.

    Args:
        options: the agent's options.
        policy: policy of the node.
        state: the GPUs.
        metrics: count registrations and answers.
        preparation: prepares the node.
        kubelet: the kubelet of this node.
        drivers: finds the cards that DRA drivers offer too; None to look for none.
    """

    def __init__(  # noqa: PLR0913, PLR0917 what the plugins of a node need
        self,
        options: AgentOptions,
        policy: AgentPolicy,
        state: AgentState,
        metrics: AgentMetrics,
        preparation: Preparation,
        kubelet: Kubelet,
        drivers: LookAtDrivers | None = None,
    ) -> None:
        self._options = options
        self._drivers = drivers
        self._policy = policy
        self._state = state
        self._metrics = metrics
        self._kubelet = kubelet
        self._preparation = preparation
        self.held = HeldSlices(policy, state, kubelet.plugins)
        self._log = get_logger("device plugins")
        per_gpu = INDEX in policy.resource
        self._offers = (
            [(policy.resource.replace(INDEX, str(gpu.index)), [gpu]) for gpu in state.gpus]
            if per_gpu
            else [(policy.resource, list(state.gpus))][: len(state.gpus)]
        )
        for resource, _ in self._offers:
            metrics.add_resource(resource)
        self._others = OtherPlugins(
            state, [resource for resource, _ in self._offers], metrics, options.trusted_resources
        )

    async def run(self) -> None:
        """Register when nothing is missing any more, and stay registered until cancelled."""
        try:
            await self._run()
        finally:
            self._preparation.release()

    async def _run(self) -> None:
        names = [resource for resource, _ in self._offers]
        allocator, specifications = await self._preparation.until_done(names, self._finish)
        await self.held.shares_of(None)  # withholds slices before any is offered
        await self._look_for_others()
        remove_stale_sockets(self._kubelet.plugins)
        registrars = [
            Registrar(
                self._device_plugin(resource, gpus, allocator), self._kubelet, self._state, self._metrics
            )
            for resource, gpus in self._offers
        ]
        async with asyncio.TaskGroup() as group:
            for registrar in registrars:
                group.create_task(registrar.run())
            group.create_task(Ownership(self._kubelet, registrars, self._others).run())
            group.create_task(self._follow_drivers())
            if specifications is not None:
                group.create_task(self._drop_unused(specifications))
                write_again = partial(self._write_again, specifications)
                if (cards := self._preparation.cards) is not None:
                    group.create_task(cards.follow(self._state.gpus))
                group.create_task(self._preparation.names.follow(self._state.gpus, write_again))

    def _device_plugin(self, resource: str, gpus: Sequence[Gpu], allocator: Allocator) -> DevicePlugin:
        return DevicePlugin(
            resource,
            gpus,
            self._policy,
            self._state,
            allocator,
            self._kubelet,
            self._metrics,
            self._preparation.before_use,
        )

    def _finish(self) -> tuple[Allocator, SliceSpecifications | None]:
        """Return what answers the kubelet, on a prepared node."""
        options, policy = self._options, self._policy
        if options.divide and INDEX not in policy.resource:
            raise NotPreparedError(
                "some cards shall stay whole (agent.divide), and a pool names all alike: use mode per-gpu"
            )
        self._refuse_claims()
        if options.strategy != "cdi":
            nodes = DeviceNodes(Path(options.driver_root), Path(options.host_driver_root))
            nodes_given = nodes if options.device_nodes else None
            return Allocator(policy, options.strategy, options.state_dir, {}, None, nodes_given), None
        specifications = self._write_specifications()
        names = self._preparation.names.names
        return Allocator(policy, options.strategy, options.state_dir, names, specifications), specifications

    def _refuse_claims(self) -> None:
        """Refuse to offer cards that pods of this boot have by DRA, from this agent before it changed.

        Raises:
            NotPreparedError: pods have claims, or whether they do is not known.
        """
        options = self._options
        cdi = Path(options.cdi_dirs[-1])
        boot, left = boot_id(Path(options.proc)), claims_with_files(cdi)
        prepared = PreparedClaims(Path(options.state_dir), boot, left)
        if not prepared.is_whole:
            raise NotPreparedError(
                "which pods have this node's GPUs by claims is not known: drain the node with"
                f" agent.offer: dra, or restart it and remove {prepared.path}"
                f" and {cdi / CLAIM_FILE_PREFIX}*.json"
            )
        if claims := prepared.claims_of_this_boot:
            first = next(iter(claims.values()))
            raise NotPreparedError(
                f"pods have {len(claims)} claims of this node's GPUs, such as {first.namespace}/{first.name}:"
                " drain the node with agent.offer: dra, or restart it, before its agent is a device plugin"
            )

    def _write_specifications(self) -> SliceSpecifications:
        options = self._options
        directory = Path(options.cdi_dirs[-1])
        driver = self._preparation.driver
        specifications = SliceSpecifications(directory, self._policy, options.state_dir, driver)
        self._write_all(specifications)
        return specifications

    def _write_all(self, specifications: SliceSpecifications) -> None:
        for gpu in self._state.gpus:
            specifications.write(gpu, None)
        self._preparation.show_driver_limits()

    def _write_again(self, specifications: SliceSpecifications) -> None:
        """Write by which hooks the driver limits containers that start from now on."""
        try:
            self._write_all(specifications)
        except CdiError as error:
            self._log.warning("our CDI devices are not updated", error=str(error))

    async def _look_for_others(self) -> None:
        """Withdraw cards that another plugin has or had, before any is offered; later looks repeat it."""
        with contextlib.suppress(KubeletError, TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                counted, holders = await self._kubelet.allocatable(), await self._kubelet.holders()
                self._others.look(counted, holders)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._look_at_drivers()

    async def _follow_drivers(self) -> None:
        while self._drivers is not None:
            await self._look_at_drivers()
            await asyncio.sleep(DRIVERS_SECONDS)

    async def _look_at_drivers(self) -> None:
        found = await self._drivers() if self._drivers is not None else None
        if found is not None:
            self._others.set_drivers(found)

    async def _drop_unused(self, specifications: SliceSpecifications) -> None:
        """Remove unused devices of other policies and of missing cards, after the registration.

        A device that cannot be removed is harmless.
        """
        await self._state.until_served()
        gpus = self._state.gpus
        try:
            in_use = await self._held_devices()
            for gpu in gpus:
                specifications.write(gpu, in_use)
            specifications.remove_others({gpu.uuid for gpu in gpus}, in_use)
        except (KubeletError, CdiError) as error:
            self._log.warning("unused CDI devices are not removed", error=str(error))

    async def _held_devices(self) -> set[str]:
        """Return our CDI devices that containers have; those of init containers by the kubelet's checkpoint.

        Raises:
            KubeletError: pod-resources does not answer.
        """
        of_holders = [ids for holder in await self._kubelet.holders() for _, ids in holder.devices]
        allocations = await asyncio.to_thread(Checkpoint(self._kubelet.plugins).allocations)
        held = [*of_holders, *(tuple(each.ids) for each in allocations)]
        return {held_slices(uuid_of(ids[0]), len(ids)) for ids in held if ids}
