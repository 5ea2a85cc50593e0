"""One log line and one count for each decision; nothing of the pod's own text but namespace and queue."""

from __future__ import annotations

from service.log import get_logger
from webhook.envelope import Request
from webhook.injection.annotations import index_text
from webhook.metrics import WebhookMetrics
from webhook.review import Outcome


class DecisionLog:
    """Records decisions; give it to the reviewer as its observer."""

    def __init__(self, metrics: WebhookMetrics) -> None:
        self._metrics = metrics
        self._log = get_logger("webhook")

    def __call__(self, request: Request, outcome: Outcome, seconds: float) -> None:
        """Count and log one decision that took `seconds`."""
        metrics = self._metrics
        metrics.reviews.add(outcome.reason, seconds)
        fields: dict[str, str | int | float | None] = {
            "uid": request.uid,
            "namespace": request.namespace,
            "decision": "allowed" if outcome.denial is None else "denied",
            "reason": outcome.reason,
            "ms": round(seconds * 1000, 3),
        }
        if request.dry_run:
            fields["dry_run"] = True
        if outcome.policy is not None:
            fields["policy"] = outcome.policy.marker
            fields["queue"] = outcome.policy.queue
        if outcome.injection is not None:
            placement = outcome.injection.placement
            fields["slices"] = outcome.injection.slices
            fields["index"] = index_text(placement.indices) or None
            if placement.degraded:
                metrics.degraded.inc()
                fields["degraded"] = True
        if outcome.error is None:
            self._log.write("info", "review", fields)
        else:
            self._log.write("error", "review", {**fields, "error": outcome.error})
