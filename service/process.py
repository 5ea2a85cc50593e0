"""The common part of all our processes: probes, metrics, background tasks, and log lines at start and end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter

from service.background import BackgroundTask, BackgroundTasks
from service.health import health_router
from service.http.serving import Listener, serve
from service.log import get_logger
from service.metrics import new_registry
from service.probes import Probes

Condition = Callable[[], str | None]
"""Returns what is missing, or None if the condition is met."""


async def _nothing() -> None:
    """End at once."""


class Process:
    """The skeleton of one process, from start to drain."""

    def __init__(self, name: str, tasks: Iterable[str], stop_delay_seconds: float) -> None:
        """`tasks` are the names of all possible background tasks."""
        self.registry = new_registry()
        self.tasks = BackgroundTasks(tasks, self.registry)
        self.log = get_logger(name)
        self._conditions: dict[str, Condition] = {}
        self._stop_delay_seconds = stop_delay_seconds
        self._stopping = False

    def ready_when(self, **conditions: Condition) -> None:
        """Add readiness conditions; the last one is always that the process is not stopping."""
        self._conditions |= conditions

    def router(self, detail: Callable[[], str]) -> APIRouter:
        """Make /livez, /readyz and /metrics; `detail` is one line for people, shown by /readyz."""
        return health_router(Probes(self.registry, self.readiness, detail, lambda: self.tasks.stuck))

    def readiness(self) -> Mapping[str, str | None]:
        """Return each condition with what is missing, or None if it is met."""
        stopping = "the process is stopping" if self._stopping else None
        return {name: missing() for name, missing in self._conditions.items()} | {"serving": stopping}

    async def serve(
        self,
        listeners: Sequence[Listener],
        tasks: Sequence[BackgroundTask],
        *,
        background: Sequence[Coroutine[Any, Any, None]] = (),
        on_stopping: Callable[[], None] = lambda: None,
        last: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """Serve until SIGTERM or SIGINT, then drain.

        The first listener is the process's own; the `role` of the others states their purpose. If a coroutine
        of `background` fails, it is not restarted: the process ends. `last` is awaited before the process
        logs that it has stopped.
        """

        def stop() -> None:
            self._stopping = True
            on_stopping()
            self.log.info("stopping", seconds=self._stop_delay_seconds)

        try:
            await serve(
                listeners,
                background=[self.tasks.count_time(), *map(self.tasks.keep, tasks), *background],
                on_started=lambda: self._say_serving(listeners),
                on_stopping=stop,
                stop_delay_seconds=self._stop_delay_seconds,
            )
        finally:
            await last()
            self.log.info("stopped")

    def _say_serving(self, listeners: Sequence[Listener]) -> None:
        (host, port), *_ = (listener.socket.getsockname()[:2] for listener in listeners)
        ports: dict[str, int | None] = {"health_port": None}
        ports |= {f"{each.role}_port": each.socket.getsockname()[1] for each in listeners if each.role}
        self.log.info("serving", host=host, port=port, **ports)
