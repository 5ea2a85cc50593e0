"""All device plugins of a node: what they need before they register, and what runs next to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from agent.allocate_response import Allocator
from agent.before_use import BeforeUse
from agent.card_names import CardNames
from agent.card_specification import CardSpecification
from agent.cdi import CdiError, SliceSpecifications, held_slices
from agent.device_nodes import DeviceNodes
from agent.device_plugin import DevicePlugin
from agent.driver_limits import DriverLimits
from agent.gpu import Gpu
from agent.kubelet import Kubelet, KubeletError
from agent.kubelet_checkpoint import Checkpoint, divisions_of
from agent.limiter_library import LibraryError, LimiterLibrary
from agent.metrics import AgentMetrics
from agent.node_lock import NodeLock
from agent.options import AgentOptions
from agent.other_plugins import OtherPlugins
from agent.ownership import Ownership
from agent.policy import PolicyWatch
from agent.private_folder import UntrustedError
from agent.registration import Registrar, remove_stale_sockets
from agent.runtime import cdi_problem
from agent.settings import NO_LIMITER, AgentPolicy
from agent.shares import uuid_of
from agent.state import HELD, AgentState
from agent.withheld_slices import withheld_ids
from service.log import get_logger

INDEX = "{index}"
RETRY_SECONDS = 1.0
_NO_HOOK = "the cards' CDI devices lack NVIDIA's hook for it: container toolkit 1.20.1 or newer has it"
LOOK_SECONDS = 1.0
"""How long an agent that starts waits for what the kubelet counts."""


class NotPreparedError(Exception):
    """Something is missing without which no share can be allocated; the text says what, and what to do."""


class DevicePlugins:
    """Prepares the node, then keeps every resource registered.

    Args:
        options: the agent's options.
        policy: policy of the node.
        state: the GPUs.
        metrics: count registrations and answers.
        names: names of the cards; a reading may be in progress.
        watch: knows whether the policy is confirmed.
        kubelet: the kubelet of this node.
        driver_limits: whether the driver should limit shares too, if NVIDIA's toolkit supports it.
    """

    def __init__(  # noqa: PLR0913, PLR0917 what the plugins of a node need
        self,
        options: AgentOptions,
        policy: AgentPolicy,
        state: AgentState,
        metrics: AgentMetrics,
        names: CardNames,
        watch: PolicyWatch,
        kubelet: Kubelet,
        *,
        driver_limits: bool,
    ) -> None:
        self._options = options
        self._policy = policy
        self._state = state
        self._metrics = metrics
        self._names = names
        self._cards: CardSpecification | None = None
        if options.nvidia_ctk is not None and options.strategy == "cdi" and state.gpus:
            self._cards = CardSpecification(options.nvidia_ctk, options)
        self._driver: DriverLimits | None = None
        if driver_limits and options.strategy == "cdi" and policy.limiter.name != NO_LIMITER:
            self._driver = DriverLimits(options.state_dir, lambda: names.limit_hooks)
        elif driver_limits:
            state.set_driver_limits(
                "the driver limits shares only with strategy cdi and a policy with a limiter"
            )
        self._kubelet = kubelet
        self._lock = NodeLock(Path(options.state_dir))
        source = Path(options.library) if options.library is not None else None
        self._library = LimiterLibrary(policy.limiter, Path(options.state_dir), source)
        self._before_use = BeforeUse(watch, self._library, self._driver)
        self._log = get_logger("device plugins")
        per_gpu = INDEX in policy.resource
        self._offers = (
            [(policy.resource.replace(INDEX, str(gpu.index)), [gpu]) for gpu in state.gpus]
            if per_gpu
            else [(policy.resource, list(state.gpus))][: len(state.gpus)]
        )
        for resource, _ in self._offers:
            metrics.add_resource(resource)
        self._others = OtherPlugins(state, [resource for resource, _ in self._offers], metrics)

    def are_limited_by_driver(self) -> bool:
        """Return whether the driver limits containers that start now, on every card."""
        cards = {gpu.uuid for gpu in self._state.gpus}
        return self._driver is not None and cards <= self._names.limit_hooks.keys()

    async def run(self, heartbeat: Callable[[], None]) -> None:
        """Register when nothing is missing any more, and stay registered until cancelled."""
        try:
            await self._run(heartbeat)
        finally:
            self._lock.release()

    async def _run(self, heartbeat: Callable[[], None]) -> None:
        allocator, specifications = await self._prepared(heartbeat)
        await self._withhold()
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
                group.create_task(registrar.run(heartbeat))
            group.create_task(Ownership(self._kubelet, registrars, self._others).run(heartbeat))
            if specifications is not None:
                group.create_task(self._drop_unused(specifications))
                write_again = partial(self._write_again, specifications)
                if self._cards is not None:
                    group.create_task(self._cards.follow(self._state.gpus, heartbeat))
                group.create_task(self._names.follow(self._state.gpus, heartbeat, write_again))

    def _device_plugin(self, resource: str, gpus: Sequence[Gpu], allocator: Allocator) -> DevicePlugin:
        return DevicePlugin(
            resource,
            gpus,
            self._policy,
            self._state,
            allocator,
            self._kubelet,
            self._metrics,
            self._before_use,
        )

    async def _prepared(self, heartbeat: Callable[[], None]) -> tuple[Allocator, SliceSpecifications | None]:
        """Return what answers the kubelet, when nothing is missing any more."""
        reported = None
        while True:
            heartbeat()
            try:
                return await self._prepare()
            except (NotPreparedError, CdiError, LibraryError, UntrustedError) as error:
                if str(error) != reported:
                    self._log.error("no GPU is offered yet", reason=str(error))
                reported = str(error)
                for resource, _ in self._offers:
                    self._state.set_registration(resource, reported)
            await asyncio.sleep(RETRY_SECONDS)

    async def _prepare(self) -> tuple[Allocator, SliceSpecifications | None]:
        options, policy = self._options, self._policy
        if options.divide and INDEX not in policy.resource:
            raise NotPreparedError(
                "some cards shall stay whole (agent.divide), and a pool names all alike: use mode per-gpu"
            )
        if not self._lock.take():
            raise NotPreparedError(
                f"another agent runs on this node and holds {self._lock.path}: end one of the two"
            )
        if options.strategy == "cdi":
            await self._name_cards()
        if (problem := cdi_problem(options)) is not None:
            raise NotPreparedError(problem)
        await asyncio.to_thread(self._library.prepare)
        if options.strategy != "cdi":
            nodes = DeviceNodes(Path(options.driver_root), Path(options.host_driver_root))
            nodes_given = nodes if options.device_nodes else None
            return Allocator(policy, options.strategy, options.state_dir, {}, None, nodes_given), None
        specifications = self._write_specifications()
        names = self._names.names
        return Allocator(policy, options.strategy, options.state_dir, names, specifications), specifications

    async def _name_cards(self) -> None:
        """Read the cards' CDI devices: ours, written again, or existing ones if that fails."""
        gpus = self._state.gpus
        why_none = ""
        if self._cards is not None:
            try:
                await asyncio.to_thread(self._cards.make, gpus)
            except CdiError as error:
                why_none = f"; {error}"
        try:
            await self._names.read(gpus)
        except CdiError as error:
            raise CdiError(f"{error}{why_none}") from error
        if why_none:
            self._log.warning("the cards' CDI devices cannot be written again", error=why_none.strip("; "))

    def _write_specifications(self) -> SliceSpecifications:
        options = self._options
        directory = Path(options.cdi_dirs[-1])
        specifications = SliceSpecifications(directory, self._policy, options.state_dir, self._driver)
        self._write_all(specifications)
        return specifications

    def _write_all(self, specifications: SliceSpecifications) -> None:
        for gpu in self._state.gpus:
            specifications.write(gpu, None)
        if self._driver is not None:
            self._state.set_driver_limits(HELD if self.are_limited_by_driver() else _NO_HOOK)

    def _write_again(self, specifications: SliceSpecifications) -> None:
        """Write by which hooks the driver limits containers that start from now on."""
        try:
            self._write_all(specifications)
        except CdiError as error:
            self._log.warning("our CDI devices are as they were", error=str(error))

    async def _look_for_others(self) -> None:
        """Withdraw cards that another plugin has or had, before any is offered; `Ownership` repeats it."""
        with contextlib.suppress(KubeletError, TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                counted, holders = await self._kubelet.allocatable(), await self._kubelet.holders()
                self._others.look(counted, holders)

    async def _withhold(self) -> None:
        """Withhold slices by the kubelet's checkpoint, before any is offered; `Usage` repeats it."""
        allocations = await asyncio.to_thread(Checkpoint(self._kubelet.plugins).allocations)
        divisions = divisions_of(allocations)
        held = frozenset(each for allocation in allocations for each in allocation.ids)
        size = self._policy.slices_per_gpu
        self._state.set_withheld(withheld_ids(self._state.gpus, divisions, held, size))

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
