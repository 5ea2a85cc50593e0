"""Metrics of the geometry loop."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.geometry.cluster import Cluster


class GeometryMetrics:
    """Metrics of the geometry loop; every series starts at zero."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.changes = Counter(
            "fraction_injector_mig_changes",
            "Divisions of MIG cards that the MIG manager was asked for, by result.",
            ["result"],
            registry=registry,
        )
        for result in ("started", "succeeded", "failed", "abandoned"):
            self.changes.labels(result)
        self.errors = Counter(
            "fraction_injector_mig_errors",
            "Requests of the geometry loop that the API server rejected or did not answer in time.",
            registry=registry,
        )
        self.waiting = Gauge(
            "fraction_injector_mig_waiting", "Pods that wait for MIG instances.", registry=registry
        )
        self.impossible = Gauge(
            "fraction_injector_mig_never_fits",
            "Pods that wait for MIG instances that no card can have.",
            registry=registry,
        )

    def show(self, cluster: Cluster) -> None:
        """Set the gauges of pods that wait."""
        self.waiting.set(len(cluster.waiting) + len(cluster.impossible))
        self.impossible.set(len(cluster.impossible))
