"""Metrics of the geometry loop."""

from __future__ import annotations

from collections import Counter as Tally

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.geometry.demand import Decision
from controller.geometry.model import UnservedReason

RESULTS = ("started", "succeeded", "failed", "abandoned")


class GeometryMetrics:
    """Metrics of the geometry loop; every series starts at zero."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.changes = Counter(
            "fraction_injector_mig_changes",
            "Divisions of MIG cards that the MIG manager was asked for, by result.",
            ["result"],
            registry=registry,
        )
        for result in RESULTS:
            self.changes.labels(result)
        self.errors = Counter(
            "fraction_injector_mig_errors",
            "Requests of the geometry loop that the API server rejected or did not answer.",
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
        self.paused = Gauge(
            "fraction_injector_mig_paused_nodes",
            "Nodes that were divided recently, and whose divided cards do not change for now.",
            registry=registry,
        )
        self.unserved = Gauge(
            "fraction_injector_mig_unserved",
            "Waiting pods, of those looked at, for which no card is divided now, by reason: no-room for "
            "their CPU or memory, paused nodes, not-its-turn, or in-use.",
            ["reason"],
            registry=registry,
        )
        for reason in UnservedReason:
            self.unserved.labels(reason)
        self.deferred = Counter(
            "fraction_injector_mig_deferred_pods",
            "Pods skipped for a while, because they got no node although MIG instances were free.",
            registry=registry,
        )

    def show(self, waiting: int, decision: Decision, paused: int) -> None:
        """Set the gauges from one step: waiting pods, the decision for them, and paused nodes."""
        self.waiting.set(waiting)
        self.infeasible.set(decision.selection.impossible_count)
        self.paused.set(paused)
        self.deferred.inc(len(decision.deferred))
        reasons = Tally(each.reason for each in decision.plan.unserved.values())
        for reason in UnservedReason:
            self.unserved.labels(reason).set(reasons[reason])
