"""A checked set of policies: for a namespace and a queue, what a pod gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ledger.resource_names import ResourceNames
from policies.effective import EffectivePolicy
from policies.model import Policy
from policies.queue_names import sanitised
from policies.quotas import Limits, rules
from policies.settle import resource_names
from policies.sources import Parts

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Settled:
    """One policy, or one policy under one queue entry, with every value settled but the quotas."""

    effective: EffectivePolicy
    policy: Policy
    limits: Limits


@dataclass(frozen=True, slots=True)
class PolicySet:
    """All policies, limiters and queues of a directory. Immutable; every lookup is a few dict reads."""

    digest: str
    """Short hex digest of what the set says, presets included; file names and comments do not count."""
    parts: Parts
    settled: Mapping[tuple[str | None, str], Settled]
    """By queue entry (None without) and policy."""
    by_namespace: Mapping[str, str]
    queue_by_label: Mapping[str, str]
    queue_by_id: Mapping[str, str]

    def resolve(self, namespace: str, queue_name: str | None, queue_id: str | None) -> EffectivePolicy:
        """Settle the policy of a pod; never raises.

        The policy that the queue's entry names if the entry applies in the namespace, else the one whose
        `namespaces` hold the pod's, else `default`; the entry's other values on top.

        Args:
            namespace: the pod's.
            queue_name: value of its label clearml-agent-queue-name, or the queue's name as written.
            queue_id: value of its label clearml-agent-queue.
        """
        entry = self.entry_of(namespace, queue_name, queue_id) if self.queue_by_label else None
        settled = self.settled[entry, self.policy_of(namespace, entry)]
        if not settled.limits:
            return settled.effective
        queue = entry or queue_name
        quotas = rules(settled.policy, settled.limits, namespace, self._names_of(queue) if queue else ())
        return replace(settled.effective, quotas=quotas) if quotas else settled.effective

    @property
    def resource_names(self) -> ResourceNames:
        """The extended resources that this set puts into pods, for the ledger to count."""
        return resource_names(policy for policy, _ in self.parts.policies.values())

    def entry_of(self, namespace: str, queue_name: str | None, queue_id: str | None) -> str | None:
        """Name of the queue entry that applies, found by id first."""
        by_id = self.queue_by_id.get(queue_id) if queue_id else None
        if by_id and self._applies(by_id, namespace):
            return by_id
        by_name = self.queue_by_label.get(sanitised(queue_name)) if queue_name else None
        return by_name if by_name and self._applies(by_name, namespace) else None

    def policy_of(self, namespace: str, entry: str | None) -> str:
        """Name of the policy that pods of a namespace follow under a queue entry."""
        named = self.parts.queues[entry][0].policy if entry else None
        return named or self.by_namespace.get(namespace, DEFAULT)

    def _names_of(self, queue: str) -> tuple[str, ...]:
        """Every name by which pods of a queue can be labelled and are counted."""
        entry = self.parts.queues.get(queue)
        identity = entry[0].id if entry else None
        return (sanitised(queue), identity) if identity else (sanitised(queue),)

    def _applies(self, entry: str, namespace: str) -> bool:
        namespaces = self.parts.queues[entry][0].namespaces
        return namespaces is None or namespace in namespaces
