"""The webhook's metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from service.metrics import BUCKETS
from webhook.admission.denial import ADMITTED, Reason

REVIEW_BUCKETS = (*BUCKETS, 5.0)


class WebhookMetrics:
    """The webhook's metrics, every series at zero from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        reviews = Counter(
            "fraction_injector_reviews",
            "Admission reviews answered, by decision and reason code; each try to create an object is one.",
            ["decision", "reason"],
            registry=registry,
        )
        self.reviews = {
            reason: reviews.labels("allowed" if reason in ADMITTED else "denied", reason.value)
            for reason in Reason
        }
        self.review_seconds = Histogram(
            "fraction_injector_review_seconds",
            "Seconds from receiving the whole body to the finished answer.",
            buckets=REVIEW_BUCKETS,
            registry=registry,
        )
        self.unreadable = Counter(
            "fraction_injector_unreadable_requests",
            "Requests that were not an AdmissionReview, answered with 4xx.",
            registry=registry,
        )
        self.degraded = Counter(
            "fraction_injector_degraded_placements", "Pods placed without the controller.", registry=registry
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
