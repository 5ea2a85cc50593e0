"""Follows the health of the GPUs: Xids by events, lost and recovered GPUs by asking each now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

from agent.gpu import Gpu, GpuCondition, GpuSource, GpuSourceError, HealthEvent
from agent.metrics import AgentMetrics
from agent.state import AgentState
from service.log import get_logger
from service.retry import Backoff

EVENT_SECONDS = 1.0
"""How long a thread waits for an event: a process that stops waits for it."""
CHECK_SECONDS = 5.0


class HealthWatch:
    """Marks GPUs unhealthy and healthy.

    A GPU with an Xid is well again once it was away and answers, as after a reset, or once its driver no
    longer asks for the recovery that it asked for. Drivers before 570 do not ask: there a reset
    that takes less than five seconds is missed, and the agent has to be started again.
    """

    def __init__(
        self, source: GpuSource, state: AgentState, ignored_xids: Collection[int], metrics: AgentMetrics
    ) -> None:
        self._source = source
        self._state = state
        self._ignored = frozenset(ignored_xids)
        self._metrics = metrics
        self._ailing: set[str] = set()
        """GPUs that were unhealthy by themselves at the last look, whatever events said."""
        self._retry = Backoff(first_seconds=1.0, max_seconds=60.0)
        self._wait_error: str | None = None
        self._log = get_logger("health")
        for gpu in state.gpus:
            metrics.set_healthy(gpu.index, gpu.uuid, healthy=True)

    async def run(self, heartbeat: Callable[[], None]) -> None:
        """Follow events and conditions until cancelled."""
        checked_at = float("-inf")
        while True:
            if time.monotonic() - checked_at >= CHECK_SECONDS:
                await self.check_all()
                checked_at = time.monotonic()
            heartbeat()
            await self._wait_once()

    async def _wait_once(self) -> None:
        try:
            event = await asyncio.to_thread(self._source.wait_for_event, EVENT_SECONDS)
        except GpuSourceError as error:
            # It says nothing about any GPU: each is asked by itself.
            if str(error) != self._wait_error:
                self._log.error("waiting for events of GPUs failed", error=str(error))
            self._wait_error = str(error)
            await asyncio.sleep(min(self._retry.next(), CHECK_SECONDS))
            return
        self._wait_error = None
        self._retry.reset()
        if event is not None:
            self.take_event(event)

    def take_event(self, event: HealthEvent) -> None:
        """Mark the GPU of an event, if it says anything of the GPU."""
        gpu = self._state.find(event.uuid) if event.uuid is not None else None
        if event.xid in self._ignored:
            self._log.info("error of a program on a GPU", uuid=event.uuid, xid=event.xid)
        elif gpu is None:
            self._log.warning("error of a GPU that is not offered", uuid=event.uuid, xid=event.xid)
        else:
            self._mark(gpu, f"Xid {event.xid}")

    async def check_all(self) -> None:
        """Ask every GPU once: an agent that starts offers none that is known to be ill."""
        for gpu in self._state.gpus:
            self.take_condition(gpu, await asyncio.to_thread(self._source.condition_of, gpu.uuid))

    def take_condition(self, gpu: Gpu, condition: GpuCondition) -> None:
        """Mark a GPU by what it answered."""
        if (why := condition.why_unhealthy) is not None:
            self._ailing.add(gpu.uuid)
            self._mark(gpu, why)
        elif gpu.uuid in self._ailing:
            self._ailing.discard(gpu.uuid)
            self._log.info("GPU is healthy again", index=gpu.index, uuid=gpu.uuid)
            self._state.mark_healthy(gpu.uuid)
            healthy = gpu.uuid not in self._state.unhealthy
            self._metrics.set_healthy(gpu.index, gpu.uuid, healthy=healthy)

    def _mark(self, gpu: Gpu, why: str) -> None:
        if self._state.unhealthy.get(gpu.uuid) == why:
            return
        self._log.error("GPU is unhealthy: it gets no new pods", index=gpu.index, uuid=gpu.uuid, reason=why)
        self._metrics.set_healthy(gpu.index, gpu.uuid, healthy=False)
        self._state.mark_unhealthy(gpu.uuid, why)
