"""What the geometry loop counts."""

from __future__ import annotations

from collections import Counter as Tally

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.geometry.demand import Decision
from controller.geometry.model import UnservedReason

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
        self.paused = Gauge(
            "fraction_injector_mig_paused_nodes",
            "Nodes that were divided a short while ago, and whose divided cards are left as they are.",
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
            "Pods left alone for a while, as they got no node though MIG instances were free.",
            registry=registry,
        )

    def show(self, waiting: int, decision: Decision, paused: int) -> None:
        """Show one step: pods that wait, what was decided for them, and nodes that pause."""
        self.waiting.set(waiting)
        self.infeasible.set(decision.selection.impossible_count)
        self.paused.set(paused)
        self.deferred.inc(len(decision.deferred))
        reasons = Tally(each.reason for each in decision.plan.unserved.values())
        for reason in UnservedReason:
            self.unserved.labels(reason).set(reasons[reason])
