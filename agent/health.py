"""Watches the health of the GPUs: Xids by events, lost and recovered GPUs by regular checks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from functools import partial

from agent.faults import Fault, Faults
from agent.gpu import Gpu, GpuCondition, GpuSourceError, HealthEvent
from agent.metrics import AgentMetrics
from agent.nvml import Nvml
from agent.recurring_error import RecurringError
from agent.settings import SURVIVED_XIDS
from agent.state import AgentState
from service.background import beat
from service.log import get_logger

EVENT_SECONDS = 1.0
"""How long a thread waits for an event; a process that stops waits for the thread."""
CHECK_SECONDS = 5.0
GOOD_CHECKS = 6
"""Good checks in a row after which a GPU that survived an Xid is offered again: half a minute."""


class HealthWatch:
    """Marks GPUs unhealthy and healthy.

    After an Xid that a GPU survives (NVIDIA's catalog), it is offered again after GOOD_CHECKS. Any other Xid
    is a fault. It ends when the GPU was away and answers again, as after a reset, when its driver no longer
    asks for the recovery that it asked for, or with a reboot. Drivers before 570 do not ask.
    """

    def __init__(
        self,
        source: Nvml,
        state: AgentState,
        ignored_xids: Collection[int],
        metrics: AgentMetrics,
        faults: Faults,
    ) -> None:
        self._source = source
        self._state = state
        self._ignored = frozenset(ignored_xids)
        self._metrics = metrics
        self._faults = faults
        self._survived: dict[str, int] = {}
        """The last Xid that a GPU survived, by UUID, until it is offered again."""
        self._good_checks: dict[str, int] = {}
        """Good checks since then, by UUID."""
        self._silent: set[str] = set()
        """GPUs for which the driver has no events."""
        self._log = get_logger("health")
        self._not_waited = RecurringError(
            self._log.error, "waiting for events of GPUs failed", GpuSourceError
        )
        for gpu in state.gpus:
            metrics.show_health(gpu, partial(self._is_healthy, gpu))
            self._show(gpu, None)

    def _is_healthy(self, gpu: Gpu) -> bool:
        return gpu.uuid not in self._state.unhealthy

    async def run(self) -> None:
        """Follow events and conditions until cancelled."""
        checked_at = float("-inf")
        while True:
            if time.monotonic() - checked_at >= CHECK_SECONDS:
                await self.check_all()
                checked_at = time.monotonic()
            beat()
            await self._wait_once()

    async def _wait_once(self) -> None:
        with self._not_waited:
            event = await asyncio.to_thread(self._source.wait_for_event, EVENT_SECONDS)
        if self._not_waited.text is not None:
            # No GPU need be at fault: each is checked separately.
            await asyncio.sleep(CHECK_SECONDS)
        elif event is not None:
            self.take_event(event)
            await asyncio.to_thread(self._faults.save)

    def take_event(self, event: HealthEvent) -> None:
        """Mark the GPU of an event, unless the event is an error of a program."""
        gpu = self._state.find(event.uuid) if event.uuid is not None else None
        if event.xid in self._ignored:
            self._log.info("error of a program on a GPU", uuid=event.uuid, xid=event.xid)
        elif gpu is None:
            self._log.warning("error of a GPU that is not offered", uuid=event.uuid, xid=event.xid)
        elif event.xid in SURVIVED_XIDS:
            self._survived[gpu.uuid], self._good_checks[gpu.uuid] = event.xid, 0
            self._show(gpu, None)
        else:
            self._faults.set(gpu.uuid, Fault(event.xid))
            self._show(gpu, None)

    async def check_all(self) -> None:
        """Check every GPU once, so that an agent that starts offers no unhealthy GPU."""
        for gpu in self._state.gpus:
            self.take_condition(gpu, await asyncio.to_thread(self._source.condition_of, gpu.uuid))
        await asyncio.to_thread(self._faults.save)

    def take_condition(self, gpu: Gpu, condition: GpuCondition) -> None:
        """Mark a GPU as healthy or not by what the driver answered about it."""
        fault = self._faults.of(gpu.uuid)
        if condition.needs_recovery:
            # The recovery also ends what the GPU survived.
            self._survived.pop(gpu.uuid, None)
            if fault is not None:
                self._faults.set(gpu.uuid, Fault(fault.xid, asked=True))
        elif fault is not None and fault.asked:
            self._faults.remove(gpu.uuid)
        self._count_good_check(gpu.uuid, condition)
        self._show_events(gpu, condition)
        self._show(gpu, condition.why_unhealthy)

    def _count_good_check(self, uuid: str, condition: GpuCondition) -> None:
        is_good = condition.why_unhealthy is None
        self._good_checks[uuid] = self._good_checks.get(uuid, 0) + 1 if is_good else 0
        if self._good_checks[uuid] >= GOOD_CHECKS:
            self._survived.pop(uuid, None)

    def _show_events(self, gpu: Gpu, condition: GpuCondition) -> None:
        self._metrics.set_tells_xids(gpu, tells=condition.tells_xids)
        if condition.tells_xids or condition.watch_error is not None:
            self._silent.discard(gpu.uuid)
        elif gpu.uuid not in self._silent:
            self._silent.add(gpu.uuid)
            self._log.warning("the driver has no events for a GPU: its Xids are not seen", index=gpu.index)

    def _show(self, gpu: Gpu, why: str | None) -> None:
        """Mark a GPU by the reason why it is unhealthy now, otherwise by its last fault."""
        fault = self._faults.of(gpu.uuid)
        xid = fault.xid if fault is not None else self._survived.get(gpu.uuid)
        why = why or (f"Xid {xid}" if xid is not None else None)
        if not self._state.mark(gpu.uuid, why):
            return
        fields = {"index": gpu.index, "uuid": gpu.uuid}
        if why is None:
            self._log.info("GPU is healthy again", **fields)
        else:
            self._log.error("GPU is unhealthy: it gets no new pods", **fields, reason=why)
