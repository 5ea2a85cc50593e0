"""The labels with a pod's ClearML queue: they must be valid, because quotas count by them."""

from __future__ import annotations

from kube.names import MAX_LABEL_VALUE, is_label_value
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import QUEUE_ID_LABEL, QUEUE_NAME_LABEL


def refuse_queue_labels(name: str | None, identity: str | None) -> Denial | None:
    """Refuse a queue label that is no valid label value, before the ledger counts the pod under it."""
    for label, value in ((QUEUE_NAME_LABEL, name), (QUEUE_ID_LABEL, identity)):
        if value is not None and not is_label_value(value):
            return Denial.of(
                Reason.UNREADABLE,
                f"label {label} has an invalid value: use at most {MAX_LABEL_VALUE} letters, digits, '-', '_'"
                " or '.', starting and ending with a letter or digit",
            )
    return None
