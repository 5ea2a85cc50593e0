"""Measures what containers use of the GPUs, and what they may use."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agent.container_use import SeenUse, UseHistory
from agent.containers import Attribution, ContainerName, attribute
from agent.gpu import Gpu, GpuSourceError, GpuUse, ProcessUse
from agent.held_slices import HeldShare, HeldShares
from agent.kubelet import Holder, KubeletError
from agent.limiter_check import LimiterCheck, Process
from agent.parts import Agent
from agent.recurring_error import RecurringError
from agent.state import Unlimited
from agent.usage_metrics import UsageMetrics
from service.background import beat
from service.log import get_logger

PERIOD_SECONDS = 15.0
_UNMEASURED = -1
"""Number of the GPU of containers whose use is not measured."""
Uses = Mapping[Gpu, GpuUse]
FindShares = Callable[[Sequence[Holder] | None], Awaitable[HeldShares]]
"""Returns the shares of containers with devices or claims; it gets None while the kubelet lists none."""


class Usage:
    """Measures in a fixed period."""

    def __init__(self, agent: Agent, find_shares: FindShares) -> None:
        options = agent.options
        self._state = agent.state
        self._source = agent.source
        self._kubelet = agent.kubelet
        self._find_shares = find_shares
        self._logs, self._proc = Path(options.container_logs), Path(options.proc)
        self._metrics = UsageMetrics(agent.registry)
        self._history = UseHistory()
        self._check = LimiterCheck(agent.policy.limiter, self._proc)
        log = get_logger("usage").warning
        self._failed = RecurringError(log, "cannot see which containers hold shares", KubeletError)

    async def run(self) -> None:
        """Measure the GPUs and their processes until cancelled."""
        while True:
            await self.measure()
            beat()
            await asyncio.sleep(PERIOD_SECONDS)

    async def measure(self) -> None:
        """Measure once; what cannot be read has no series."""
        uses = await asyncio.to_thread(self._uses)
        pids = {process.pid for use in uses.values() for process in use.processes}
        found = await asyncio.to_thread(attribute, pids, self._logs, self._proc)
        processes = [(pid, each.id) for pid, each in found.containers.items()]
        with_limiter = await asyncio.to_thread(self._check.has_limiter, processes)
        holders: list[Holder] | None = None
        with self._failed:
            holders = await self._kubelet.holders()
        held = await self._find_shares(holders)
        seen = _seen_by_process(held.shares, uses, found)
        # No await from here on, so that the metrics are read completely.
        self._metrics.clear()
        for gpu, use in uses.items():
            self._metrics.set_gpu(gpu, use)
            for name, group in _by_container(use, found).items():
                self._metrics.set_memory_used(name, gpu.index, sum(each.used_mib for each in group))
        for name, share in held.shares:
            self._metrics.set_share(name, share)
        self._set_uses(held if holders is not None else None, seen)
        unlimited = self._find_unlimited(uses, found, with_limiter, held.shares)
        is_known = self._check.can_tell and self._logs.is_dir()
        self._state.unlimited = tuple(unlimited) if is_known else None

    def _set_uses(self, held: HeldShares | None, seen: Iterable[SeenUse]) -> None:
        """Update what containers have used; nothing changes while the kubelet does not list them.

        Without the links to logs it is not known which containers processes are of.
        """
        now = int(time.time())
        if not self._logs.is_dir():
            self._state.set_uses(None, now)
        elif held is not None:
            holders = {(name, share.gpu.index) for name, share in held.shares}
            measured = self._history.update(
                seen, holders | {(name, _UNMEASURED) for name in held.unmeasured}, now
            )
            self._metrics.set_uses(measured)
            self._state.set_uses(measured, now)

    def _uses(self) -> Uses:
        uses = {}
        for gpu in self._state.gpus:
            try:
                uses[gpu] = self._source.use_of(gpu.uuid)
            except GpuSourceError:
                continue  # its health shows that
        return uses

    def _find_unlimited(
        self,
        uses: Uses,
        found: Attribution,
        with_limiter: Mapping[Process, bool],
        shares: Iterable[HeldShare],
    ) -> list[Unlimited]:
        """Count the processes of each limited share without the limiter; return the containers with some."""
        limits = {(name, share.gpu.index): share.memory_mib for name, share in shares}
        unlimited: dict[Unlimited, None] = {}
        for gpu, use in uses.items():
            for pid in [process.pid for process in use.processes if process.pid in found.containers]:
                known = found.containers[pid]
                name = known.name
                has, mib = with_limiter.get((pid, known.id)), limits.get((name, gpu.index))
                if has is None or mib is None:
                    continue
                self._metrics.count_unlimited(name, gpu.index, has_limiter=has)
                if not has:
                    container = name.namespace, name.pod, known.pod_uid, name.container, known.id
                    unlimited[Unlimited(*container, gpu.index, mib)] = None
        return list(unlimited)


def _by_container(use: GpuUse, found: Attribution) -> Mapping[ContainerName, Sequence[ProcessUse]]:
    processes: defaultdict[ContainerName, list[ProcessUse]] = defaultdict(list)
    for process in use.processes:
        if (container := found.containers.get(process.pid)) is not None:
            processes[container.name].append(process)
    return processes


def _seen_by_process(shares: Iterable[HeldShare], uses: Uses, found: Attribution) -> Iterator[SeenUse]:
    """Yield what shares' holders use; without those that processes of unknown containers may belong to."""
    grouped = {gpu: _by_container(use, found) for gpu, use in uses.items()}
    unclear = {gpu for gpu, use in uses.items() if any(each.pid in found.unknown for each in use.processes)}
    others = {gpu for gpu, use in uses.items() if _others_ran(use, found)}
    for name, share in shares:
        processes = grouped[share.gpu].get(name, ()) if share.gpu in uses else ()
        if processes or (share.gpu in uses and share.gpu not in unclear):
            used = sum(each.used_mib for each in processes)
            busy = _busy_percent(uses[share.gpu], processes)
            uid = found.containers[processes[0].pid].pod_uid if processes else ""
            yield SeenUse(name, share.gpu.index, share.usable_mib, used, busy, uid, share.gpu in others)


def _others_ran(use: GpuUse, found: Attribution) -> bool:
    """Whether a process that belongs to no known container ran kernels."""
    strangers = [each for each in use.processes if each.pid not in found.containers]
    return use.others_ran or any(each.busy_percent != 0 for each in strangers)


def _busy_percent(use: GpuUse, processes: Iterable[ProcessUse]) -> int | None:
    known = [each.busy_percent for each in processes]
    if not use.knows_busy_processes or None in known:
        return None
    return min(100, sum(each for each in known if each is not None))
