"""The labels by which a pod names its ClearML queue: quotas count by them, so they must be valid."""

from __future__ import annotations

from kube.names import MAX_LABEL_VALUE, is_label_value
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import QUEUE_ID_LABEL, QUEUE_NAME_LABEL


def refuse_queue_labels(name: str | None, identity: str | None) -> Denial | None:
    """Refuse a label that the API server would refuse later, when the ledger had counted by it already."""
    for label, value in ((QUEUE_NAME_LABEL, name), (QUEUE_ID_LABEL, identity)):
        if value is not None and not is_label_value(value):
            return Denial.of(
                Reason.UNREADABLE,
                f"label {label} is no label value: write at most {MAX_LABEL_VALUE} letters, digits, '-', '_'"
                " or '.', with a letter or digit at both ends",
            )
    return None
