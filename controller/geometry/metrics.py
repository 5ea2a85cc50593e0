"""Metrics of the geometry loop."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge


class GeometryMetrics:
    """Metrics of the geometry loop; every series starts at zero."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.changes = counter(
            "fraction_injector_mig_changes",
            "Divisions of MIG cards that the MIG manager was asked for, by result.",
            ["result"],
        )
        for result in ("started", "succeeded", "failed", "abandoned"):
            self.changes.labels(result)
        self.errors = counter(
            "fraction_injector_mig_errors",
            "Requests of the geometry loop that the API server rejected or did not answer in time.",
        )
        self.waiting = gauge("fraction_injector_mig_waiting", "Pods that wait for MIG instances.")
