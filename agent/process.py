"""The agent process: assembles GPUs, health, device plugins, metrics and probes.

All imports here stay in the memory of every agent, so there is no web framework and no policy loader. So it
does not use `service.process`, but it has the same probes, background tasks and log lines.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path

from agent.divide import is_divided
from agent.dra.serving import DraOffer
from agent.faults import Faults
from agent.files import boot_id
from agent.health import HealthWatch
from agent.kubelet import Kubelet
from agent.kubernetes.api_server import ApiServerClient
from agent.kubernetes.node_writer import NodeWriter
from agent.kubernetes.unlimited_events import UnlimitedEvents
from agent.metrics import AgentMetrics
from agent.nvml import Nvml
from agent.options import AgentOptions
from agent.parts import Agent
from agent.plugins import DevicePlugins
from agent.policy import PolicyWatch, read_policy
from agent.preparation import Preparation
from agent.settings import AgentPolicy
from agent.state import AgentState
from agent.usage import Usage
from service.background import BackgroundTask, BackgroundTasks
from service.http.plain_http import PlainHttp
from service.log import get_logger
from service.metrics import new_registry
from service.probes import Probes

TASKS = "policy", "health", "device plugins", "usage"
"""Background tasks of an agent, which are restarted when they fail."""
REPORTS = "node facts", "unlimited programs"
"""Further ones, where the options name a node."""
SECONDS_UNTIL_MEASURED = 5.0
"""The registration comes first, unless it takes longer."""


async def run_agent(options: AgentOptions, api: ApiServerClient | None) -> bool:
    """Serve until SIGTERM or SIGINT. Return whether to start again, because the policy changed.

    `api` is the API server; None if the options name no node.

    Raises:
        PolicyUnusableError: there is no usable policy.
        GpuSourceError: the driver does not answer.
        OSError: the address to listen on is not available, or no process can be started.
    """
    watch = PolicyWatch(options)
    policy = await read_policy(options)
    source = await asyncio.to_thread(
        Nvml, driver_root=options.driver_root, unified_mib=options.unified_memory_mib
    )
    try:
        return await AgentProcess(options, policy, source, api, watch).serve()
    finally:
        await asyncio.to_thread(source.close)


class AgentProcess:
    """One agent, from start to end."""

    def __init__(
        self,
        options: AgentOptions,
        policy: AgentPolicy,
        source: Nvml,
        api: ApiServerClient | None = None,
        watch: PolicyWatch | None = None,
    ) -> None:
        self._options = options
        self._policy = policy
        self._source = source
        self._api = api
        self._watch = watch or PolicyWatch(options)
        self._log = get_logger("agent")
        self._registry = new_registry()
        self._tasks = BackgroundTasks([*TASKS, *(REPORTS if api is not None else ())], self._registry)
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
        self.port = await server.start(self._options.host, self._options.health_port)
        self._log.info("serving", host=self._options.host, health_port=self.port)
        try:
            await self._run()
        finally:
            server.close()
            self._log.info("stopped")
        return self._again

    async def _run(self) -> None:
        agent = await self._look_at_gpus()
        running = [asyncio.ensure_future(self._tasks.keep(task)) for task in self._tasks_of(agent)]
        running.append(asyncio.ensure_future(self._tasks.count_time()))
        try:
            await self._stopping.wait()
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _look_at_gpus(self) -> Agent:
        options = self._options
        offered = []
        for gpu in await asyncio.to_thread(self._source.list_gpus):
            is_left_out = gpu.mig or not is_divided(gpu, options.divide)
            what = "GPU is in MIG mode: left out" if gpu.mig else "GPU stays whole: left out"
            logged = "index", "uuid", "model", "memory_mib", "numa_node"
            self._log.info(what if is_left_out else "GPU", **{name: getattr(gpu, name) for name in logged})
            offered += [] if is_left_out else [gpu]
        self.state = AgentState(offered)
        lacking = await asyncio.to_thread(self._source.why_no_driver_limits)
        self._log.info("limits by the driver", offered=lacking is None, reason=lacking)
        kubelet, metrics = Kubelet(Path(options.kubelet_dir)), AgentMetrics(self._registry)
        of_process = self.state, self._source, kubelet, metrics, self._registry
        return Agent(options, self._policy, *of_process, lacking)

    def _tasks_of(self, agent: Agent) -> list[BackgroundTask]:
        options, state = agent.options, agent.state

        async def follow_policy() -> None:
            await self._watch.until_changed(agent.policy)
            self._again = True
            self._stopping.set()

        async def offer() -> None:
            await health.check_all()
            await offering.run()

        async def measure() -> None:
            await state.until_served(SECONDS_UNTIL_MEASURED)
            await usage.run()

        faults = Faults(agent.state_dir, boot_id(Path(options.proc)))
        health = HealthWatch(agent.source, state, options.ignored_xids, agent.metrics, faults)
        preparation = Preparation(agent)
        offering: DraOffer | DevicePlugins = DevicePlugins(agent, preparation, self._api)
        if self._api is not None and options.offer == "dra":
            offering = DraOffer(agent, preparation, self._api)
        agent.metrics.set_driver_limits(
            offered=agent.driver_lacks is None, are_set=preparation.are_limited_by_driver
        )
        usage = Usage(agent, offering.held.shares_of)
        tasks = [
            BackgroundTask("device plugins", offer, 30.0),
            BackgroundTask("health", health.run, 30.0),
            BackgroundTask("policy", follow_policy, 60.0),
            BackgroundTask("usage", measure, 60.0),
        ]
        if self._api is not None:
            facts = NodeWriter(self._api, options.node or "", agent)
            tasks.append(BackgroundTask("node facts", facts.run))
            unlimited = UnlimitedEvents(self._api, agent)
            tasks.append(BackgroundTask("unlimited programs", unlimited.run))
        return tasks

    def _readiness(self) -> Mapping[str, str | None]:
        missing = self.state.missing if self.state is not None else "the GPUs are not listed yet"
        return {
            "registered": missing,
            "serving": "the process is stopping" if self._stopping.is_set() else None,
        }

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
