"""What the geometry loop counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

RESULTS = ("started", "succeeded", "failed", "abandoned")


class GeometryMetrics:
    """Metrics of the geometry loop, every series at zero from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.changes = Counter(
            "fraction_injector_mig_changes",
            "Divisions of MIG cards that were asked of the MIG manager, and how they ended.",
            ["result"],
            registry=registry,
        )
        for result in RESULTS:
            self.changes.labels(result)
        self.errors = Counter(
            "fraction_injector_mig_errors",
            "Requests of the geometry loop that the API server refused or did not answer.",
            registry=registry,
        )
        self.waiting = Gauge(
            "fraction_injector_mig_waiting", "Pods that wait for MIG instances.", registry=registry
        )
        self.infeasible = Gauge(
            "fraction_injector_mig_never_fits",
            "Pods that wait for MIG instances that no card can have.",
            registry=registry,
        )
