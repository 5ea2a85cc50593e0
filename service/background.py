"""Background tasks of a process: run again when they fail, and missed when they no longer turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

from service.log import get_logger
from service.retry import Backoff

Turned = Callable[[], None]
"""A task calls it after each of its turns."""

PERIODS_UNTIL_STUCK = 3
MIN_PERIOD_SECONDS = 10.0
"""A shorter period counts as this one: a slow disk or API call is no reason to begin again."""
_TICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class BackgroundTask:
    """A loop of a process."""

    name: str
    run: Callable[[Turned], Awaitable[None]]
    period_seconds: float | None = None
    """How long a turn may take, waiting included; None where a task waits for as long as nothing happens."""

    @classmethod
    def without_period(cls, name: str, run: Callable[[], Awaitable[None]]) -> BackgroundTask:
        """Return a task that waits for as long as nothing happens, or that has deadlines of its own."""

        def run_on(_: Turned) -> Awaitable[None]:
            return run()

        return cls(name, run_on)


class BackgroundTasks:
    """Runs the tasks of a process, and knows which of them are stuck.

    Time is counted in ticks of the event loop: while a machine is paused, or has no CPU for this process,
    nobody's time runs out.
    """

    def __init__(self, names: Iterable[str], registry: CollectorRegistry) -> None:
        """`names` are those of all tasks that may run: each has its series from the start."""
        failures = Counter(
            "fraction_injector_background_task_failures",
            "Background tasks that failed and were run again, by task.",
            ["task"],
            registry=registry,
        )
        self._failures = {name: failures.labels(name) for name in names}
        self._now = 0.0
        self._turned_at: dict[BackgroundTask, float] = {}
        """Of those that run at this moment."""
        self._log = get_logger("background")

    @property
    def stuck(self) -> str | None:
        """Which tasks have not turned for three of their periods, if any."""
        late = [
            f"{task.name}: no turn for {self._now - turned_at:.0f} s"
            for task, turned_at in self._turned_at.items()
            if task.period_seconds is not None
            and self._now - turned_at > PERIODS_UNTIL_STUCK * max(task.period_seconds, MIN_PERIOD_SECONDS)
        ]
        return "; ".join(late) or None

    async def count_time(self) -> None:
        """Count the seconds of this process, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self.tick()

    def tick(self) -> None:
        """Count one second."""
        self._now += _TICK_SECONDS

    async def keep(self, task: BackgroundTask, backoff: Backoff | None = None) -> None:
        """Run a task until it returns; whenever it raises, count that and run it again after a pause."""
        backoff = backoff or Backoff(first_seconds=0.5)
        while True:
            try:
                await self._run(task)
            except Exception as error:  # noqa: BLE001 the failure of one task must not end the others
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
        def turned() -> None:
            self._turned_at[task] = self._now

        turned()
        try:
            await task.run(turned)
        finally:
            del self._turned_at[task]
