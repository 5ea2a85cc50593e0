"""The webhook's metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from service.metrics import BUCKETS
from webhook.admission.denial import ADMITTED, Reason

REVIEW_BUCKETS = (*BUCKETS, 5.0)


class ReviewTally(Collector):
    """Counts reviews in plain numbers, and makes metrics of them when they are collected.

    One thread counts all reviews; the client library's locks would cost more than the counting itself.
    """

    def __init__(self) -> None:
        self._reviews = dict.fromkeys(Reason, 0)
        self._by_bucket = [0] * (len(REVIEW_BUCKETS) + 1)
        self._seconds = 0.0

    def add(self, reason: Reason, seconds: float) -> None:
        """Count one review that took `seconds`."""
        self._reviews[reason] += 1
        self._by_bucket[bisect_left(REVIEW_BUCKETS, seconds)] += 1
        self._seconds += seconds

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Yield every series; series that never happened are zero."""
        reviews = CounterMetricFamily(
            "fraction_injector_reviews",
            "Admission reviews answered, by decision and reason code.",
            labels=["decision", "reason"],
        )
        for reason, count in self._reviews.items():
            reviews.add_metric(["allowed" if reason in ADMITTED else "denied", reason.value], count)
        yield reviews
        bounds = [*map(str, REVIEW_BUCKETS), "+Inf"]
        yield HistogramMetricFamily(
            "fraction_injector_review_seconds",
            "Seconds from receiving the whole body to the finished answer.",
            buckets=list(zip(bounds, accumulate(self._by_bucket), strict=True)),
            sum_value=self._seconds,
        )


class WebhookMetrics:
    """The webhook's metrics, every series at zero from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reviews = ReviewTally()
        registry.register(self.reviews)
        self.unreadable = Counter(
            "fraction_injector_unreadable_requests",
            "Requests that were not an AdmissionReview, answered with 4xx.",
            registry=registry,
        )
        self.degraded = Counter(
            "fraction_injector_degraded_placements",
            "Pods placed without the controller.",
            registry=registry,
        )
        self.reload_successful = Gauge(
            "fraction_injector_policy_last_reload_successful",
            "1 if the current policy directory is in force, 0 if the last good set is.",
            registry=registry,
        )
        self.policies_adopted = Gauge(
            "fraction_injector_policies_from_controller",
            "1 while the controller's last good policy set is in force because the directory is broken.",
            registry=registry,
        )
