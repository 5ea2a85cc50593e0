"""All device plugins of a node: what has to be there before they register, and what runs beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from agent.allocator import Allocator
from agent.cdi import CdiError, SliceSpecifications, card_names, held_slices
from agent.device_plugin import DevicePlugin
from agent.files import write_whole
from agent.kubelet import Kubelet, KubeletError
from agent.limits import loader_list
from agent.metrics import AgentMetrics
from agent.ownership import Ownership
from agent.registration import Registrar, remove_stale_sockets
from agent.runtime import cdi_problem, runtime_version
from agent.settings import AgentOptions, AgentPolicy
from agent.state import AgentState
from service.log import get_logger

INDEX = "{index}"
RETRY_SECONDS = 5.0


class NotPreparedError(Exception):
    """Something is missing without which no share may be given; the text says what, and what to do."""


class DevicePlugins:
    """Prepares the node, then keeps every resource registered."""

    def __init__(
        self, options: AgentOptions, policy: AgentPolicy, state: AgentState, metrics: AgentMetrics
    ) -> None:
        self._options = options
        self._policy = policy
        self._state = state
        self._metrics = metrics
        self._kubelet = Kubelet(Path(options.kubelet_dir))
        self._log = get_logger("device plugins")
        per_gpu = INDEX in policy.resource
        self._offers = (
            [(policy.resource.replace(INDEX, str(gpu.index)), [gpu]) for gpu in state.gpus]
            if per_gpu
            else [(policy.resource, list(state.gpus))][: len(state.gpus)]
        )
        for resource, _ in self._offers:
            metrics.add_resource(resource)

    async def run(self, turned: Callable[[], None]) -> None:
        """Register once everything is there, and stay registered until cancelled."""
        allocator = await self._prepared(turned)
        remove_stale_sockets(self._kubelet.plugins)
        registrars = [
            Registrar(
                DevicePlugin(
                    resource, gpus, self._policy, self._state, allocator, self._kubelet, self._metrics
                ),
                self._kubelet,
                self._state,
                self._metrics,
            )
            for resource, gpus in self._offers
        ]
        async with asyncio.TaskGroup() as group:
            for registrar in registrars:
                group.create_task(registrar.run(turned))
            group.create_task(Ownership(self._kubelet, registrars).run(turned))

    async def _prepared(self, turned: Callable[[], None]) -> Allocator:
        """Return what answers the kubelet, once nothing is missing."""
        said = None
        while True:
            turned()
            try:
                return await self._prepare()
            except (NotPreparedError, CdiError) as error:
                if str(error) != said:
                    self._log.error("no GPU is offered yet", reason=str(error))
                said = str(error)
                for resource, _ in self._offers:
                    self._state.set_registration(resource, said)
            await asyncio.sleep(RETRY_SECONDS)

    async def _prepare(self) -> Allocator:
        options, policy = self._options, self._policy
        version = options.runtime_version
        if version is None and options.strategy == "cdi":
            version = await runtime_version(options.runtime_endpoint)
        if (problem := cdi_problem(options.strategy, version)) is not None:
            raise NotPreparedError(problem)
        self._prepare_library()
        if options.strategy != "cdi":
            return Allocator(policy, options.strategy, options.state_dir, {}, None)
        names = await card_names(options.cdi_dirs, self._state.gpus)
        specifications = await self._write_specifications()
        return Allocator(policy, options.strategy, options.state_dir, names, specifications)

    def _prepare_library(self) -> None:
        """Write the dynamic loader's list beside the limiter's library.

        Raises:
            NotPreparedError: the library is not there, and shares would be without limit.
        """
        preload, state_dir = self._policy.limiter.preload, Path(self._options.state_dir)
        if preload is None:
            return
        library = state_dir / "library" / PurePosixPath(preload).name
        if not library.is_file():
            raise NotPreparedError(
                f"{library} is not there: put the library of limiter {self._policy.limiter.name} there, or"
                " choose a policy with limiter none"
            )
        try:
            write_whole(state_dir / loader_list(preload), f"{preload}\n".encode())
        except OSError as error:
            raise NotPreparedError(f"{state_dir} cannot be written: {error.strerror}") from error

    async def _write_specifications(self) -> SliceSpecifications:
        options, gpus = self._options, self._state.gpus
        specifications = SliceSpecifications(Path(options.cdi_dirs[-1]), self._policy, options.state_dir)
        in_use = await self._held_devices()
        for gpu in gpus:
            specifications.write(gpu, in_use)
        if in_use is not None:
            specifications.remove_others({gpu.uuid for gpu in gpus}, in_use)
        return specifications

    async def _held_devices(self) -> set[str] | None:
        """Return what containers hold of our CDI devices; None where the kubelet does not tell."""
        try:
            holders = await self._kubelet.holders()
        except KubeletError as error:
            self._log.warning("no CDI device is dropped: nobody tells which are held", error=str(error))
            return None
        return {
            held_slices(ids[0].rpartition("::")[0], len(ids))
            for holder in holders
            for _, ids in holder.devices
            if ids
        }
