"""What the webhook counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook.reasons import ADMITTED, Reason

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class WebhookMetrics:
    """The webhook's metrics, every series at zero from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        reviews = Counter(
            "fraction_injector_reviews",
            "Admission reviews answered, by decision and reason code.",
            ["decision", "reason"],
            registry=registry,
        )
        self.reviews = {
            reason: reviews.labels("allowed" if reason in ADMITTED else "denied", reason.value)
            for reason in Reason
        }
        self.seconds = Histogram(
            "fraction_injector_review_seconds",
            "Seconds from the whole body received to the answer made.",
            buckets=BUCKETS,
            registry=registry,
        )
        self.unreadable = Counter(
            "fraction_injector_unreadable_requests",
            "Requests that were no AdmissionReview and got a 4xx.",
            registry=registry,
        )
        self.degraded = Counter(
            "fraction_injector_degraded_placements",
            "Pods placed without the controller.",
            registry=registry,
        )
        self.reload_successful = Gauge(
            "fraction_injector_policy_last_reload_successful",
            "1 if the policy directory as it is now is in force, 0 if the last good one is.",
            registry=registry,
        )
        self.certificate_expiry = Gauge(
            "fraction_injector_certificate_expiry_timestamp_seconds",
            "When the served certificate ends, in Unix seconds.",
            registry=registry,
        )
        self.swap_errors = Counter(
            "fraction_injector_certificate_swap_errors",
            "Certificate pairs that were mounted and not served.",
            registry=registry,
        )
