"""What namespace and queue labels of a pod decide: its policy, and the keys of its queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from ledger.queue_names import queue_keys
from policies.model.effective import EffectivePolicy
from webhook.admission.denial import Denial
from webhook.admission.queue_labels import refuse_queue_labels

MAX_KEPT = 512
"""Namespaces with queues; authors of pods write both. Each is three names of at most 63 characters."""


class Policies(Protocol):
    """Chooses the policy of a pod. Immutable: changed policies are another object."""

    def resolve(self, namespace: str, queue_name: str | None, queue_id: str | None) -> EffectivePolicy:
        """Return the effective policy of a namespace and queue; never fails."""


class ResolvedPolicy(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The common data of all pods of one namespace and queue."""

    policy: EffectivePolicy
    queues: tuple[str, ...]
    """Keys of the queue (ledger/queue_names.py)."""


class PolicyResolver:
    """Finds and caches what pods follow under the current policies: there are few queues."""

    def __init__(self, policies: Callable[[], Policies]) -> None:
        self._policies = policies
        self._kept_of: Policies | None = None
        self._kept: dict[tuple[str, str | None, str | None], ResolvedPolicy] = {}

    def find(self, namespace: str, queue_name: str | None, queue_id: str | None) -> ResolvedPolicy | Denial:
        """Return the policy and queue for a valid namespace and labels; a Denial if the labels are invalid.

        Raises:
            NoPoliciesError: there are no policies yet.
        """
        policies = self._policies()
        if policies is not self._kept_of:
            self._kept.clear()
            self._kept_of = policies
        found = self._kept.get((namespace, queue_name, queue_id))
        return found if found is not None else self._resolve(policies, namespace, queue_name, queue_id)

    def _resolve(
        self, policies: Policies, namespace: str, queue_name: str | None, queue_id: str | None
    ) -> ResolvedPolicy | Denial:
        refused = refuse_queue_labels(queue_name, queue_id)
        if refused is not None:
            return refused
        policy = policies.resolve(namespace, queue_name, queue_id)
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        resolved = ResolvedPolicy(policy, queue_keys(queue_name, queue_id))
        self._kept[namespace, queue_name, queue_id] = resolved
        return resolved
