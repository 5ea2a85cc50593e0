"""What namespace and queue labels of a pod decide: its policy, and the keys of its queue."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube.names import MAX_LABEL_VALUE, is_label_value
from ledger.queue_names import queue_keys
from policies.loading.policy_set import PolicySet
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import QUEUE_ID_LABEL, QUEUE_NAME_LABEL


class ResolvedPolicy(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The common data of all pods of one namespace and queue."""

    policy: EffectivePolicy
    queues: tuple[str, ...]
    """Keys of the queue (ledger/queue_names.py)."""


def resolve_policy(policies: PolicySet, namespace: str, labels: Mapping[str, str]) -> ResolvedPolicy | Denial:
    """Return the policy and queue of a pod; deny queue labels that are invalid: quotas count by them."""
    queue_name, queue_id = labels.get(QUEUE_NAME_LABEL), labels.get(QUEUE_ID_LABEL)
    for label, value in ((QUEUE_NAME_LABEL, queue_name), (QUEUE_ID_LABEL, queue_id)):
        if value is not None and not is_label_value(value):
            return Denial.of(
                Reason.UNREADABLE,
                f"label {label} has an invalid value: use at most {MAX_LABEL_VALUE} letters, digits, '-', '_'"
                " or '.', starting and ending with a letter or digit",
            )
    policy = policies.resolve(namespace, queue_name, queue_id)
    return ResolvedPolicy(policy, queue_keys(queue_name, queue_id))
