"""What containers may use of GPUs, and what they use, as metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

from agent.containers import ContainerId, ContainerName, container_id_of, running_containers
from agent.gpu import Gpu, GpuSource, GpuSourceError, GpuUse
from agent.held_slices import held_of
from agent.kubelet import Holder, Kubelet, KubeletError
from agent.kubelet_checkpoint import Allocation, Checkpoint, divisions_of
from agent.limiter_check import LimiterCheck, Process
from agent.options import AgentOptions
from agent.settings import AgentPolicy
from agent.shares import RefusedError, Share, shares_of, uuid_of
from agent.state import AgentState, Unlimited
from agent.withheld_slices import withheld_ids
from service.log import get_logger

PERIOD_SECONDS = 15.0
_MIB = 1024 * 1024
_PREFIX = "fraction_injector_agent_"
_CONTAINER = ("namespace", "pod", "container", "gpu")


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """Where a process runs."""

    name: ContainerName
    id: ContainerId


class Usage:
    """Measures now and then.

    Args:
        options: where the node's processes and containers are found.
        policy: of the node.
        state: the GPUs.
        source: what they say of their use.
        registry: the process's metrics.
    """

    def __init__(
        self,
        options: AgentOptions,
        policy: AgentPolicy,
        state: AgentState,
        source: GpuSource,
        registry: CollectorRegistry,
    ) -> None:
        self._policy = policy
        self._state = state
        self._source = source
        self._kubelet = Kubelet(Path(options.kubelet_dir))
        self._checkpoint = Checkpoint(self._kubelet.plugins)
        self._logs, self._proc = Path(options.container_logs), Path(options.proc)
        self._gpu_used = _gauge(
            registry, "gpu_memory_used_bytes", "Memory of a GPU that is used.", "gpu", "uuid"
        )
        self._busy = _gauge(
            registry, "gpu_utilisation_ratio", "Part of the time that a GPU was busy.", "gpu", "uuid"
        )
        self._slices = _gauge(
            registry, "container_slices", "Slices of a GPU that a container holds.", *_CONTAINER
        )
        self._limit = _gauge(
            registry, "container_memory_limit_bytes", "GPU memory that a container may use.", *_CONTAINER
        )
        self._used = _gauge(
            registry,
            "container_memory_used_bytes",
            "GPU memory that a container's processes use.",
            *_CONTAINER,
        )
        self._unlimited = _gauge(
            registry,
            "container_unlimited_processes",
            "Processes on a GPU, in a container with a limited share, that have no limiter loaded.",
            *_CONTAINER,
        )
        self._check = LimiterCheck(policy.limiter, self._proc)
        self._error: str | None = None
        self._log = get_logger("usage")

    async def run(self, heartbeat: Callable[[], None]) -> None:
        """Measure until cancelled."""
        while True:
            await self.measure()
            heartbeat()
            await asyncio.sleep(PERIOD_SECONDS)

    async def measure(self) -> None:
        """Measure once; what cannot be asked keeps no series."""
        uses = await asyncio.to_thread(self._uses)
        containers = await asyncio.to_thread(self._containers, uses)
        processes = [(pid, each.id.id) for pid, each in containers.items()]
        with_limiter = await asyncio.to_thread(self._check.has_limiter, processes)
        holders = await self._holders()
        allocations = await asyncio.to_thread(self._checkpoint.allocations)
        divisions = divisions_of(allocations)
        self._state.set_held(held_of(holders, self._state.gpus) if holders is not None else None)
        self._withhold(_given(holders, allocations), divisions)
        # Without a wait from here on, so that nobody reads half of it.
        gauges = self._gpu_used, self._busy, self._used, self._slices, self._limit, self._unlimited
        for gauge in gauges:
            gauge.clear()
        for gpu, use in uses.items():
            self._gpu_used.labels(str(gpu.index), gpu.uuid).set(use.used_mib * _MIB)
            self._busy.labels(str(gpu.index), gpu.uuid).set(use.utilisation_percent / 100)
            self._set_used(gpu, use, containers)
        limits: dict[tuple[str, ...], int] = {}
        for holder in holders or ():
            for share in self._shares(holder, divisions):
                labels = (holder.namespace, holder.pod, holder.container, str(share.gpu.index))
                self._slices.labels(*labels).set(share.slices)
                mib = share.memory_mib if share.memory_mib is not None else share.gpu.usable_mib
                self._limit.labels(*labels).set(mib * _MIB)
                if share.memory_mib is not None:
                    limits[labels] = share.memory_mib
        unlimited = self._find_unlimited(uses, containers, with_limiter, limits)
        # Without the containers' logs nobody knows which process is whose.
        can_tell = self._check.can_tell and self._logs.is_dir()
        self._state.set_unlimited(unlimited if can_tell else None)

    def _withhold(self, held: Collection[frozenset[str]], divisions: Mapping[frozenset[str], int]) -> None:
        of_held = {ids: size for ids, size in divisions.items() if ids in held}
        every_id = frozenset(each for ids in held for each in ids)
        withheld = withheld_ids(self._state.gpus, of_held, every_id, self._policy.slices_per_gpu)
        if len(withheld) != len(self._state.withheld):
            why = "containers were given larger slices, before the policy changed"
            self._log.warning("slices are withheld from new pods", slices=len(withheld), reason=why)
        self._state.set_withheld(withheld)

    def _uses(self) -> dict[Gpu, GpuUse]:
        uses = {}
        for gpu in self._state.gpus:
            try:
                uses[gpu] = self._source.use_of(gpu.uuid)
            except GpuSourceError:
                continue  # its health says so already
        return uses

    def _containers(self, uses: dict[Gpu, GpuUse]) -> dict[int, RunningContainer]:
        """Return the containers of all processes on GPUs, by process."""
        pids = {process.pid for use in uses.values() for process in use.processes}
        names = running_containers(self._logs) if pids else {}
        found = {pid: container_id_of(pid, self._proc) for pid in pids}
        return {
            pid: RunningContainer(names[each.id], each)
            for pid, each in sorted(found.items())
            if each is not None and each.id in names
        }

    def _find_unlimited(
        self,
        uses: Mapping[Gpu, GpuUse],
        containers: Mapping[int, RunningContainer],
        with_limiter: Mapping[Process, bool],
        limits: Mapping[tuple[str, ...], int],
    ) -> list[Unlimited]:
        """Count the processes of each limited share that lack the limiter, and return where some do."""
        found: dict[Unlimited, None] = {}
        for gpu, use in uses.items():
            for pid in [process.pid for process in use.processes if process.pid in containers]:
                name, known = containers[pid].name, containers[pid].id
                labels = (name.namespace, name.pod, name.container, str(gpu.index))
                has = with_limiter.get((pid, known.id))
                if has is None or labels not in limits:
                    continue
                self._unlimited.labels(*labels).inc(not has)
                if not has:
                    found[_unlimited(name, known, gpu, limits[labels])] = None
        return list(found)

    def _set_used(self, gpu: Gpu, use: GpuUse, containers: Mapping[int, RunningContainer]) -> None:
        used: Counter[ContainerName] = Counter()
        for process in use.processes:
            if (container := containers.get(process.pid)) is not None:
                used[container.name] += process.used_mib
        for name, mib in used.items():
            self._used.labels(name.namespace, name.pod, name.container, str(gpu.index)).set(mib * _MIB)

    async def _holders(self) -> list[Holder] | None:
        try:
            holders = await self._kubelet.holders()
        except KubeletError as error:
            if str(error) != self._error:
                self._log.warning("cannot see which containers hold slices", error=str(error))
            self._error = str(error)
            return None
        self._error = None
        return holders

    def _shares(self, holder: Holder, divisions: Mapping[frozenset[str], int]) -> Iterator[Share]:
        gpus = {gpu.uuid: gpu for gpu in self._state.gpus}
        for _, ids in holder.devices:
            if any(uuid_of(each) in gpus for each in ids):
                try:
                    # A container keeps the limit by which it was started, whatever the policy says since.
                    size = divisions.get(frozenset(ids), self._policy.slices_per_gpu)
                    yield from shares_of(ids, gpus, size, self._policy.reserve_mib)
                except RefusedError:
                    continue  # given under another policy, and the kubelet's file does not tell which


def _unlimited(name: ContainerName, known: ContainerId, gpu: Gpu, mib: int) -> Unlimited:
    return Unlimited(name.namespace, name.pod, known.pod_uid, name.container, known.id, gpu.index, mib)


def _given(holders: Iterable[Holder] | None, allocations: Iterable[Allocation]) -> set[frozenset[str]]:
    """Return what containers were given of each resource."""
    if holders is None:  # The kubelet's file tells too, but of containers that have ended until the next one.
        return {each.ids for each in allocations}
    return {frozenset(ids) for holder in holders for _, ids in holder.devices}


def _gauge(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"{_PREFIX}{name}", text, labels, registry=registry)
