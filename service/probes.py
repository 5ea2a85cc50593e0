"""The answers to /livez, /readyz and /metrics, independent of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from service.metrics import CONTENT_TYPE

Readiness = Callable[[], Mapping[str, str | None]]
"""Returns each readiness condition with what is missing, or None if it is met."""
TEXT = "text/plain; charset=utf-8"


class ProbeResponse(NamedTuple):
    """One response."""

    status: int
    content_type: str
    body: bytes


class Probes:
    """The probes and metrics of a process.

    Args:
        registry: the process's metrics.
        readiness: its conditions.
        detail: one line for people, which /readyz shows after the conditions.
        stuck: returns why the process must restart, or None while it works.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        readiness: Readiness,
        detail: Callable[[], str],
        stuck: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.paths: Mapping[str, Callable[[], ProbeResponse]] = {
            "/livez": self.livez,
            "/readyz": self.readyz,
            "/metrics": self.metrics,
        }
        self._registry = registry
        self._readiness = readiness
        self._detail = detail
        self._stuck = stuck

    def livez(self) -> ProbeResponse:
        """Return whether the process works."""
        why = self._stuck()
        return ProbeResponse(503 if why else 200, TEXT, f"{why or 'ok'}\n".encode())

    def readyz(self) -> ProbeResponse:
        """Return whether every condition is met, and what is missing of each."""
        conditions = self._readiness()
        lines = [f"[{'+' if why is None else '-'}] {name}: {why or 'ok'}" for name, why in conditions.items()]
        ready = all(why is None for why in conditions.values())
        return ProbeResponse(200 if ready else 503, TEXT, "\n".join([*lines, self._detail(), ""]).encode())

    def metrics(self) -> ProbeResponse:
        """Return all metrics in Prometheus' text format."""
        return ProbeResponse(200, CONTENT_TYPE, generate_latest(self._registry))
