"""Background tasks of a process: restarted when they fail, and reported when their heartbeat stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

from service.log import get_logger
from service.retry import Backoff

_heartbeat: ContextVar[Callable[[], None]] = ContextVar("heartbeat", default=lambda: None)


def beat() -> None:
    """Give the heartbeat of the background task that runs now, if any, after a step or a request."""
    _heartbeat.get()()


PERIODS_UNTIL_STUCK = 3
MIN_PERIOD_SECONDS = 10.0
"""Minimum period: a slow disk or API call is no reason to restart the process."""
_TICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class BackgroundTask:
    """A loop that runs as long as the process, and how often it must call `beat`."""

    name: str
    run: Callable[[], Awaitable[None]]
    period_seconds: float | None = None
    """Maximum time between heartbeats, including waiting; None for tasks that may wait indefinitely."""


class BackgroundTasks:
    """Runs the tasks of a process, and knows which of them are stuck.

    Time is counted in ticks of the event loop: while the machine is paused, or this process gets no CPU, no
    task's time runs out.
    """

    def __init__(self, names: Iterable[str], registry: CollectorRegistry) -> None:
        """`names` are the names of all possible tasks: each has its series from the start."""
        failures = Counter(
            "fraction_injector_background_task_failures",
            "Background tasks that failed and were run again, by task.",
            ["task"],
            registry=registry,
        )
        self._failures = {name: failures.labels(name) for name in names}
        self._now = 0.0
        self._last_heartbeat: dict[BackgroundTask, float] = {}
        """The last heartbeat of each running task."""
        self._log = get_logger("background")

    @property
    def stuck(self) -> str | None:
        """The tasks without a heartbeat for three of their periods, if any."""
        late = [
            f"{task.name}: no heartbeat for {self._now - at:.0f} s"
            for task, at in self._last_heartbeat.items()
            if task.period_seconds is not None
            and self._now - at > PERIODS_UNTIL_STUCK * max(task.period_seconds, MIN_PERIOD_SECONDS)
        ]
        return "; ".join(late) or None

    async def count_time(self) -> None:
        """Count the seconds of this process, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self.tick()

    def tick(self) -> None:
        """Count one second in which the event loop ran."""
        self._now += _TICK_SECONDS

    async def keep(self, task: BackgroundTask, backoff: Backoff | None = None) -> None:
        """Run a task until it returns; if it raises, count that and restart it after a pause.

        The failure of one task does not end the others.
        """
        backoff = backoff or Backoff(first_seconds=0.5)
        while True:
            try:
                await self._run(task)
            except Exception as error:
                # A task group raises the errors of its tasks instead of a cancellation.
                if (current := asyncio.current_task()) is not None and current.cancelling():
                    raise asyncio.CancelledError from error
                self._failures[task.name].inc()
                seconds = backoff.next()
                text = f"{type(error).__name__}: {error}"
                self._log.error(
                    "background task failed", task=task.name, error=text, again_in=round(seconds, 2)
                )
                await asyncio.sleep(seconds)
            else:
                return

    async def _run(self, task: BackgroundTask) -> None:
        def heartbeat() -> None:
            # What a task has started may go on after its end.
            if task in self._last_heartbeat:
                self._last_heartbeat[task] = self._now

        self._last_heartbeat[task] = self._now
        _heartbeat.set(heartbeat)
        try:
            # In a task of its own: a task group that fails may leave its task marked as cancelled.
            await asyncio.ensure_future(task.run())
        finally:
            del self._last_heartbeat[task]
