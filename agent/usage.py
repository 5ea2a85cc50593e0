"""Metrics of the GPU memory that containers may use, and that they use."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

from agent import ownership
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
LIST_SECONDS = 2 * ownership.PERIOD_SECONDS
"""How old the list of containers may be: one that is made every period is never older."""
_MIB = 1024 * 1024
_PREFIX = "fraction_injector_agent_"
_CONTAINER = ("namespace", "pod", "container", "gpu")


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """The container to which a process on a GPU belongs."""

    name: ContainerName
    id: ContainerId


class Usage:
    """Measures in a fixed period.

    Args:
        options: where the node's processes and containers are found.
        policy: policy of the node.
        state: the GPUs.
        source: reports the use of the GPUs.
        kubelet: the kubelet of this node.
        registry: the process's metrics.
    """

    def __init__(  # noqa: PLR0913, PLR0917 what is measured, and where it is read
        self,
        options: AgentOptions,
        policy: AgentPolicy,
        state: AgentState,
        source: GpuSource,
        kubelet: Kubelet,
        registry: CollectorRegistry,
    ) -> None:
        self._policy = policy
        self._state = state
        self._source = source
        self._kubelet = kubelet
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
        """Measure the GPUs and their processes until cancelled."""
        while True:
            await self.measure()
            heartbeat()
            await asyncio.sleep(PERIOD_SECONDS)

    async def measure(self) -> None:
        """Measure once; what cannot be read has no series."""
        uses = await asyncio.to_thread(self._uses)
        containers = await asyncio.to_thread(self._containers, uses)
        processes = [(pid, each.id.id) for pid, each in containers.items()]
        with_limiter = await asyncio.to_thread(self._check.has_limiter, processes)
        holders = await self._holders()
        allocations = await asyncio.to_thread(self._checkpoint.allocations)
        divisions = divisions_of(allocations)
        self._state.set_held(held_of(holders, self._state.gpus) if holders is not None else None)
        self._withhold(_given(holders, allocations), divisions)
        # No await from here on, so that the metrics are read completely.
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
        # Without the links to logs the containers of processes are unknown.
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
                continue  # its health shows that
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
        """Count the processes of each limited share without the limiter; return the containers with some."""
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
            # `Ownership` lists them too, while slices are offered.
            holders = await self._kubelet.recent_holders(LIST_SECONDS)
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
                    # A running container keeps its limit when the policy changes.
                    size = divisions.get(frozenset(ids), self._policy.slices_per_gpu)
                    yield from shares_of(ids, gpus, size, self._policy.reserve_mib)
                except RefusedError:
                    continue  # allocated under another policy, and the checkpoint does not state which


def _unlimited(name: ContainerName, known: ContainerId, gpu: Gpu, mib: int) -> Unlimited:
    return Unlimited(name.namespace, name.pod, known.pod_uid, name.container, known.id, gpu.index, mib)


def _given(holders: Iterable[Holder] | None, allocations: Iterable[Allocation]) -> set[frozenset[str]]:
    """Return the device IDs of each allocation."""
    if holders is None:  # The checkpoint also has ended containers, until the next allocation.
        return {each.ids for each in allocations}
    return {frozenset(ids) for holder in holders for _, ids in holder.devices}


def _gauge(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"{_PREFIX}{name}", text, labels, registry=registry)
