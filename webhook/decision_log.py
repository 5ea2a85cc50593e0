"""One log line and one count per decision; of the pod's text only namespace and queue."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import UNSET, UnsetType

from service.log import Line, write_line
from webhook.admission_request import Request
from webhook.decision import Outcome
from webhook.metrics import WebhookMetrics


class ReviewLine(Line):
    """The line of a decision; fields that do not apply are left out."""

    uid: str
    namespace: str
    decision: str
    reason: str
    ms: float
    policy: str | UnsetType = UNSET
    queue: str | UnsetType | None = UNSET
    slices: int | UnsetType = UNSET
    index: str | UnsetType | None = UNSET
    dry_run: bool | UnsetType = UNSET
    degraded: bool | UnsetType = UNSET
    error: str | UnsetType = UNSET


class DecisionLog:
    """Records decisions; give it to the reviewer as its observer."""

    def __init__(self, metrics: WebhookMetrics) -> None:
        self._metrics = metrics

    def __call__(self, request: Request, outcome: Outcome, seconds: float) -> None:
        """Count and log one decision that took `seconds`."""
        self._metrics.reviews[outcome.reason].inc()
        self._metrics.review_seconds.observe(seconds)
        line = ReviewLine(
            datetime.now(UTC),
            "info" if outcome.error is None else "error",
            "webhook",
            "review",
            request.uid,
            request.namespace,
            "allowed" if outcome.denial is None else "denied",
            outcome.reason,
            int(seconds * 1e6) / 1000,
        )
        policy, injection = outcome.policy, outcome.injection
        if policy is not None:
            line.policy, line.queue = policy.marker, policy.queue
        if injection is not None:
            line.slices = injection.slices
            line.index = injection.index
            if injection.placement.degraded:
                self._metrics.degraded.inc()
                line.degraded = True
        if request.dry_run:
            line.dry_run = True
        if outcome.error is not None:
            line.error = outcome.error
        write_line(line)
