"""The agent process: assembles GPUs, health, device plugins, metrics and probes.

All imports here stay in the memory of every agent, so there is no web framework and no policy loader. So it
does not use `service.process`, but it has the same probes, background tasks and log lines.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, get_args

from prometheus_client import CollectorRegistry

from agent.boot import boot_id
from agent.card_names import CardNames
from agent.divide import is_divided
from agent.faults import Faults
from agent.gpu import Gpu, GpuSource
from agent.health import HealthWatch
from agent.held_shares import ShareSource
from agent.kubelet import Kubelet
from agent.metrics import AgentMetrics
from agent.nvml import Nvml
from agent.options import AgentOptions
from agent.parallel_start import Begun
from agent.plugins import DevicePlugins, LookAtDrivers
from agent.policy import POLL_SECONDS, PolicyWatch, read_policy
from agent.preparation import Preparation
from agent.settings import AgentPolicy
from agent.state import AgentState
from agent.usage import Usage
from service.background import BackgroundTask, BackgroundTasks
from service.http.plain_http import PlainHttp
from service.log import get_logger
from service.metrics import new_registry
from service.probes import Probes

Task = Literal["policy", "health", "device plugins", "usage"]
"""Background tasks of an agent, which are restarted when they fail."""
SECONDS_UNTIL_MEASURED = 5.0
"""The registration comes first, unless it takes longer."""


@dataclass(frozen=True, slots=True)
class Agent:
    """The parts of a running agent that its extensions use."""

    options: AgentOptions
    policy: AgentPolicy
    state: AgentState
    source: GpuSource
    registry: CollectorRegistry
    driver_limits: bool
    """Whether the driver can limit the GPU memory of containers."""


@dataclass(frozen=True, slots=True)
class Extension:
    """Tasks next to the device plugins, such as those that use the API server."""

    names: tuple[str, ...]
    """Names of all tasks that may run."""
    tasks: Callable[[Agent], Sequence[BackgroundTask]]
    conditions: Callable[[], Mapping[str, str | None]] = dict
    """Conditions of readiness: each with what is missing, or None if nothing is."""


class Offering(Protocol):
    """What keeps the GPUs offered to the scheduler."""

    @property
    def held(self) -> ShareSource:
        """Finds the shares that containers hold."""

    async def run(self) -> None:
        """Offer the GPUs, until cancelled."""


@dataclass(frozen=True, slots=True)
class OfferingParts:
    """What an offering may use."""

    agent: Agent
    metrics: AgentMetrics
    preparation: Preparation
    kubelet: Kubelet


MakeOffering = Callable[[OfferingParts], Offering]


def device_plugins(parts: OfferingParts, drivers: LookAtDrivers | None = None) -> DevicePlugins:
    """Offer the GPUs by device plugins; `drivers` finds the cards that DRA drivers offer too."""
    agent = parts.agent
    return DevicePlugins(
        agent.options, agent.policy, agent.state, parts.metrics, parts.preparation, parts.kubelet, drivers
    )


async def run_agent(
    options: AgentOptions,
    begun: Begun,
    extensions: Sequence[Extension] = (),
    offering: MakeOffering = device_plugins,
) -> bool:
    """Serve until SIGTERM or SIGINT. Return whether to start again, because the policy changed.

    Args:
        options: the agent's options.
        begun: readings in progress.
        extensions: what runs next to the device plugins.
        offering: makes what offers the GPUs.

    Raises:
        PolicyUnusableError: there is no usable policy.
        GpuSourceError: the driver does not answer.
        OSError: the address to listen on is not available.
    """
    policy = await read_policy(begun.policy)
    is_named = options.nvidia_ctk is not None or options.device_nodes
    driver_root = options.driver_root if is_named else None
    source = await asyncio.to_thread(Nvml, driver_root=driver_root)
    try:
        return await AgentProcess(options, policy, source, extensions, begun, offering).serve()
    finally:
        await asyncio.to_thread(source.close)


class AgentProcess:
    """One agent, from start to end."""

    def __init__(  # noqa: PLR0913, PLR0917 what a process is made of
        self,
        options: AgentOptions,
        policy: AgentPolicy,
        source: GpuSource,
        extensions: Sequence[Extension] = (),
        begun: Begun | None = None,
        offering: MakeOffering = device_plugins,
    ) -> None:
        self._offering = offering
        self._options = options
        self._policy = policy
        self._begun = begun
        self._source = source
        self._extensions = extensions
        self._log = get_logger("agent")
        self._registry = new_registry()
        names = [*get_args(Task), *(name for extension in extensions for name in extension.names)]
        self._tasks = BackgroundTasks(names, self._registry)
        self._stopping = asyncio.Event()
        self._again = False
        self.state: AgentState | None = None
        """None until the GPUs are listed."""
        self.port = options.health_port
        """Port of the probes; the actual one when it serves."""

    def stop(self) -> None:
        """Make `serve` return."""
        self._stopping.set()

    async def serve(self) -> bool:
        """Run everything until SIGTERM or SIGINT, or until the policy changed, which returns True."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        probes = Probes(self._registry, self._readiness, self._detail, lambda: self._tasks.stuck)
        server = PlainHttp(probes)
        self.port = server.start(self._options.host, self._options.health_port)
        self._log.info("serving", host=self._options.host, health_port=self.port)
        try:
            await self._run()
        finally:
            server.close()
            self._log.info("stopped")
        return self._again

    async def _run(self) -> None:
        gpus = await asyncio.to_thread(self._source.list_gpus)
        divide = self._options.divide
        for gpu in gpus:
            self._log.info(_what_of(gpu, divide), **_fields(gpu))
        self.state = AgentState(gpu for gpu in gpus if not gpu.mig and is_divided(gpu, divide))
        why_none = await asyncio.to_thread(self._source.why_no_driver_limits)
        self._log.info("limits by the driver", offered=why_none is None, reason=why_none)
        if self._options.driver_limits:
            self.state.set_driver_limits(why_none or "no share is prepared yet")
        agent = Agent(self._options, self._policy, self.state, self._source, self._registry, why_none is None)
        tasks = [*self._own_tasks(agent), *(task for each in self._extensions for task in each.tasks(agent))]
        running = [asyncio.ensure_future(self._tasks.keep(task)) for task in tasks]
        running.append(asyncio.ensure_future(self._tasks.count_time()))
        try:
            await self._stopping.wait()
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _own_tasks(self, agent: Agent) -> list[BackgroundTask]:
        begun = self._begun
        watch = PolicyWatch(agent.options, agent.policy, begun.policy.files if begun is not None else None)

        async def follow_policy() -> None:
            await watch.until_changed()
            self._again = True
            self._stopping.set()

        metrics = AgentMetrics(agent.registry)
        faults = Faults(Path(agent.options.state_dir), boot_id(Path(agent.options.proc)))
        health = HealthWatch(agent.source, agent.state, agent.options.ignored_xids, metrics, faults)
        names = begun.card_names if begun is not None else CardNames(agent.options.cdi_dirs)
        asked = agent.driver_limits and agent.options.driver_limits
        kubelet = Kubelet(Path(agent.options.kubelet_dir))
        preparation = Preparation(agent.options, agent.policy, agent.state, names, watch, driver_limits=asked)
        offering = self._offering(OfferingParts(agent, metrics, preparation, kubelet))
        metrics.set_driver_limits(offered=agent.driver_limits, are_set=preparation.are_limited_by_driver)
        compiled_later = partial(agent.state.until_served, POLL_SECONDS)
        measured_later = partial(agent.state.until_served, SECONDS_UNTIL_MEASURED)
        usage = Usage(
            agent.options, agent.policy, agent.state, agent.source, kubelet, offering.held, agent.registry
        )
        return [
            BackgroundTask.beating("device plugins", _after(health.check_all, offering.run), 30.0),
            BackgroundTask.beating("health", health.run, 30.0),
            BackgroundTask.beating("policy", _after(compiled_later, follow_policy), 60.0),
            BackgroundTask.beating("usage", _after(measured_later, usage.run), 60.0),
        ]

    def _readiness(self) -> Mapping[str, str | None]:
        missing = self.state.missing if self.state is not None else "the GPUs are not listed yet"
        of_extensions = {
            name: why for extension in self._extensions for name, why in extension.conditions().items()
        }
        stopping = "the process is stopping" if self._stopping.is_set() else None
        return {"registered": missing, **of_extensions, "serving": stopping}

    def _detail(self) -> str:
        state = self.state
        if state is None:
            return "no GPU is known yet"
        unhealthy = [
            f"GPU {gpu.index} is unhealthy: {state.unhealthy[gpu.uuid]}"
            for gpu in state.gpus
            if gpu.uuid in state.unhealthy
        ]
        return "; ".join([f"{len(state.gpus)} GPUs", *unhealthy])


def _after(
    first: Callable[[], Awaitable[None]], run: Callable[[], Awaitable[None]]
) -> Callable[[], Awaitable[None]]:
    async def one_after_the_other() -> None:
        await first()
        await run()

    return one_after_the_other


def _what_of(gpu: Gpu, divide: Collection[str]) -> str:
    if gpu.mig:
        return "GPU is in MIG mode: left out"
    return "GPU" if is_divided(gpu, divide) else "GPU stays whole: left out"


def _fields(gpu: object) -> dict[str, object]:
    return {name: getattr(gpu, name) for name in ("index", "uuid", "model", "memory_mib", "numa_node")}
