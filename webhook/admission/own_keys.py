"""Our labels and annotations: one that is unknown or in the wrong place denies a labelled pod."""

from __future__ import annotations

from policies.model.pod_keys import misplaced_keys
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import ObjectMeta


def refuse_misplaced_keys(metadata: ObjectMeta) -> Denial | None:
    """Refuse the first of our keys that would have no effect."""
    for kind, key, rule in misplaced_keys(metadata.labels or (), metadata.annotations or ()):
        return Denial.of(Reason.KEY, f"{kind} {key} {rule}")
    return None
