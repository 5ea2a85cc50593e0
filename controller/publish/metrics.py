"""Metrics of the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.pods.pod_findings import Reason
from controller.publish.usage_metrics import shown
from controller.watch.ledger_store import LedgerStore
from ledger.placement_request import OverQuota, Placement, PlacementResult, Unschedulable
from service.metrics import BUCKETS

_OF_CARDS = (
    ("cards", "cards", "Cards that a DRA driver offers of nodes."),
    ("mib", "card_mib_capacity", "MiB of these cards."),
    ("claimed", "card_mib_claimed", "MiB of these cards that claims hold."),
    ("free", "card_mib_free", "MiB of these cards for new claims; none of tainted cards and unusable nodes."),
)
_RESULTS = {Placement: "placed", Unschedulable: "misfit", OverQuota: "over-quota"}


class ControllerMetrics:
    """The controller's metrics; every series is zero from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        placements = counter("fraction_injector_placements", "Requests answered, by result.", ["result"])
        self._placements = {kind: placements.labels(result) for kind, result in _RESULTS.items()}
        self.batch_seconds = Histogram(
            "fraction_injector_placement_batch_seconds",
            "Seconds to decide one batch of requests.",
            buckets=BUCKETS,
            registry=registry,
        )
        self._lists = counter("fraction_injector_lists", "Complete lists read, by resource.", ["resource"])
        self._troubles = counter(
            "fraction_injector_watch_errors",
            "Lists and watches that failed, by resource and reason.",
            ["resource", "kind"],
        )
        self.watch_well = gauge(
            "fraction_injector_watch_well",
            "1 if the watch of a resource works, 0 if it is rejected or silent.",
            ["resource"],
        )
        for resource in ("nodes", "pods", "gpuledgers", "gpunodes", "resourceslices"):
            self._lists.labels(resource)
            for kind in ("list", "watch", "stale"):
                self._troubles.labels(resource, kind)
        self.leading = gauge("fraction_injector_leading", "1 if this replica leads, else 0.")
        self.published = counter("fraction_injector_gpuledger_writes", "GpuLedgers written.")
        self.publish_errors = counter(
            "fraction_injector_gpuledger_write_errors", "GpuLedgers that could not be written."
        )
        self.terms_behind = gauge(
            "fraction_injector_gpuledger_terms_behind",
            "Terms by which another controller that writes the same GpuLedgers is ahead, else 0.",
        )
        self.events = counter(
            "fraction_injector_pod_events", "Events written on pods, by reason.", ["reason"]
        )
        self.events_lost = counter(
            "fraction_injector_events_lost",
            "Events lost because too many waited, or the API server did not take them in 3 s.",
        )
        self.idle_slices = gauge(
            "fraction_injector_namespace_slices_idle",
            "Slices of pods without a kernel for longer than idleAfter, as quotas count; by the leader.",
            ["namespace"],
        )
        for reason in get_args(Reason):
            self.events.labels(reason)
        self.nodes_held = gauge(
            "fraction_injector_nodes_held", "Nodes with the taint agent-not-ready, as the leader sees them."
        )
        self.audit_differences = gauge(
            "fraction_injector_audit_differences",
            "GPUs for which the kubelet and the ledger differed in three checks, by the leader.",
        )
        self.mig_changes = counter(
            "fraction_injector_mig_changes",
            "Divisions of MIG cards that the MIG manager was asked for, by result.",
            ["result"],
        )
        for result in ("started", "succeeded", "failed", "abandoned"):
            self.mig_changes.labels(result)
        self.mig_errors = counter(
            "fraction_injector_mig_errors",
            "Requests of the geometry loop that the API server rejected or did not answer in time.",
        )
        self.mig_waiting = gauge("fraction_injector_mig_waiting", "Pods that wait for MIG instances.")

    def set_idle(self, slices: Mapping[str, int]) -> None:
        """Set the slices of idle pods by namespace."""
        self.idle_slices.clear()
        for namespace, amount in shown(slices, ()).items():
            self.idle_slices.labels(namespace).set(amount)

    def answered(self, answer: PlacementResult) -> None:
        """Count one answer to a webhook."""
        self._placements[type(answer)].inc()

    def listed(self, resource: str) -> None:
        """Count a list that was read completely."""
        self._lists.labels(resource).inc()

    def failed(self, resource: str, reason: str) -> None:
        """Count a list or watch that failed."""
        self._troubles.labels(resource, reason).inc()


class LedgerCollector(Collector):
    """The ledger's running totals. A scrape builds no view of any node."""

    def __init__(self, state: LedgerStore) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        ledger = self._state.ledger
        totals = ledger.totals()
        yield _gauge("gpus", "GPUs with their own resource name.", totals.gpus)
        yield _gauge("slices_capacity", "Slices that can be allocated.", totals.capacity)
        yield _gauge("slices_allocated", "Allocated slices, reserved ones included.", totals.used)
        yield _gauge(
            "slices_free", "Slices for new pods; none of cordoned GPUs and unusable nodes.", totals.free
        )
        yield _gauge("slices_over", "Slices held beyond the capacity.", totals.over)
        yield _gauge("waiting_slices", "Slices of pods without a node.", ledger.pending_slices())
        yield _gauge("reservations", "Reservations whose pods have not appeared yet.", ledger.reservations)
        yield from self._cards()
        yield _gauge("synced", "1 once nodes and pods are listed.", self._state.synced.is_set())

    def _cards(self) -> Iterator[Metric]:
        sums = self._state.ledger.card_totals()
        for field, name, documentation in _OF_CARDS:
            gauge = GaugeMetricFamily(f"fraction_injector_{name}", documentation, labels=["driver"])
            for driver in sorted(sums):
                gauge.add_metric([driver], getattr(sums[driver], field))
            yield gauge


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(f"fraction_injector_{name}", documentation, value)
