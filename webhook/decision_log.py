"""One log line and one count per decision; of the pod's text only namespace and queue."""

from __future__ import annotations

from typing import Any

from service.log import get_logger
from webhook.admission_request import Request
from webhook.decision import Outcome
from webhook.metrics import WebhookMetrics


class DecisionLog:
    """Records decisions; give it to the reviewer as its observer."""

    def __init__(self, metrics: WebhookMetrics) -> None:
        self._metrics = metrics
        self._log = get_logger("webhook")

    def __call__(self, request: Request, outcome: Outcome, seconds: float) -> None:
        """Count and log one decision that took `seconds`; fields that do not apply are left out."""
        self._metrics.reviews[outcome.reason].inc()
        self._metrics.review_seconds.observe(seconds)
        said: dict[str, Any] = {
            "uid": request.uid,
            "namespace": request.namespace,
            "decision": "allowed" if outcome.denial is None else "denied",
            "reason": outcome.reason.value,
            "ms": int(seconds * 1e6) / 1000,
        }
        policy, injection = outcome.policy, outcome.injection
        if policy is not None:
            said |= {"policy": policy.marker, "queue": policy.queue}
        if injection is not None:
            said |= {"slices": injection.slices, "index": injection.index}
            if injection.placement.degraded:
                self._metrics.degraded.inc()
                said["degraded"] = True
        if request.dry_run:
            said["dry_run"] = True
        if outcome.error is None:
            self._log.info("review", **said)
        else:
            self._log.error("review", **said, error=outcome.error)
