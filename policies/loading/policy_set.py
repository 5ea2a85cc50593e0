"""A checked set of policies, which gives the policy of a namespace and queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ledger.placement_request import Quota
from ledger.queue_names import names_of_keys, queue_keys, sanitised
from modes.resource_names import ResourceNames
from policies.loading.build import resource_names
from policies.loading.sources import Parts
from policies.model.effective import EffectivePolicy, QuotaRule
from policies.model.quotas import Counted, Limits, rule_of
from policies.model.schema import Policy

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """One policy, with or without one of its queue entries. Quotas are left out: they depend on the pod."""

    effective: EffectivePolicy
    policy: Policy
    limits: Limits


@dataclass(frozen=True, slots=True)
class PolicySet:
    """All policies, limiters and queues of a directory. Immutable; every lookup is a few dict reads."""

    digest: str
    """Short hex digest of the set's content, including presets, but not file names and comments.

    If the chart wrote the set, a dot and the number of the second lock's tables follow."""
    parts: Parts
    compiled: Mapping[tuple[str | None, str], CompiledPolicy]
    """By queue entry (None: without one) and policy."""
    by_namespace: Mapping[str, str]
    queue_by_label: Mapping[str, str]
    queue_by_id: Mapping[str, str]
    followed: Mapping[str, Counted]
    """Namespaces whose pods follow each policy, if their queue does not name another."""
    has_quotas: bool

    def resolve(self, namespace: str, queue_name: str | None, queue_id: str | None) -> EffectivePolicy:
        """Return the policy of a pod; never raises.

        It is the policy that the queue's entry names if the entry applies in the namespace, else the policy
        that lists the namespace, else `default`. Other values of the entry replace those of the policy.

        Args:
            namespace: namespace of the pod.
            queue_name: value of its label clearml-agent-queue-name, or the queue's name in ClearML.
            queue_id: value of its label clearml-agent-queue.
        """
        entry = self.entry_of(namespace, queue_name, queue_id) if self.queue_by_label else None
        compiled = self.compiled[entry, self.policy_of(namespace, entry)]
        if not self.has_quotas:
            return compiled.effective
        rules = self._rules(namespace, compiled, entry, queue_name)
        quotas = tuple(rule for rule in rules if rule is not None)
        return replace(compiled.effective, quotas=quotas) if quotas else compiled.effective

    def quotas_of(self, namespace: str, queues: tuple[str, ...]) -> tuple[Quota, ...]:
        """Return the quotas of pods by their namespace and queue keys."""
        policy = self.resolve(namespace, *names_of_keys(queues))
        return tuple([rule.quota for rule in policy.quotas])

    @property
    def resource_names(self) -> ResourceNames:
        """The extended resources that this set puts into pods, for the ledger to count."""
        return resource_names(policy for policy, _ in self.parts.policies.values())

    def quotas(self) -> tuple[Quota, ...]:
        """Return every quota that can apply to a pod, without duplicates."""
        rules = [
            rule
            for (entry, name), compiled in self.compiled.items()
            for rule in self._all(entry, name, compiled)
        ]
        return tuple(dict.fromkeys([rule.quota for rule in rules if rule is not None]))

    def _all(self, entry: str | None, name: str, compiled: CompiledPolicy) -> Iterator[QuotaRule | None]:
        """Yield the quotas of a policy, or of one under a queue entry, that apply to some pod."""
        if entry is not None and not self._is_followed(entry, name):
            return
        for (scope, key), amounts in compiled.limits.items():
            if scope == "namespace":
                if (entry is None or self._applies(entry, key)) and self.policy_of(key, entry) == name:
                    yield rule_of(compiled.policy, scope, key, amounts)
            elif entry is None and self._is_without_entry(name, key):
                yield rule_of(
                    compiled.policy, scope, key, amounts, self._without_entry(name, key).bounded(key)
                )
        if entry is not None:
            yield self._rule_of_entry(compiled, entry)

    def _is_followed(self, entry: str, name: str) -> bool:
        """Whether pods under a queue entry follow a policy in some namespace."""
        said = self.parts.queues[entry][0]
        if said.namespaces is not None:
            return any(self.policy_of(namespace, entry) == name for namespace in said.namespaces)
        return name == said.policy if said.policy else name in {DEFAULT, *self.by_namespace.values()}

    def _is_without_entry(self, name: str, label: str) -> bool:
        """Whether pods with this queue label follow a policy somewhere without a queue entry."""
        queue = self.queue_by_label.get(label)
        if queue is not None and self.parts.queues[queue][0].namespaces is None:
            return False
        return self._without_entry(name, label).namespaces != ()

    def queues(self) -> tuple[Quota, ...]:
        """Return each queue that has an entry, in all namespaces and without limits."""
        entries = self.parts.queues.items()
        names = [(sanitised(queue), entry.id) for queue, (entry, _) in entries]
        return tuple([Quota("queue", name, keys=queue_keys(name, identity)) for name, identity in names])

    def entry_of(self, namespace: str, queue_name: str | None, queue_id: str | None) -> str | None:
        """Name of the queue entry that applies; the id has precedence."""
        by_id = self.queue_by_id.get(queue_id) if queue_id else None
        if by_id and self._applies(by_id, namespace):
            return by_id
        by_name = self.queue_by_label.get(sanitised(queue_name)) if queue_name else None
        return by_name if by_name and self._applies(by_name, namespace) else None

    def policy_of(self, namespace: str, entry: str | None) -> str:
        """Name of the policy that pods of a namespace follow under a queue entry."""
        named = self.parts.queues[entry][0].policy if entry else None
        return named or self.by_namespace.get(namespace, DEFAULT)

    def _rules(
        self, namespace: str, compiled: CompiledPolicy, entry: str | None, queue_name: str | None
    ) -> Iterator[QuotaRule | None]:
        """Yield the quotas of a pod: that of its namespace, and those of each queue in its labels."""
        limit = compiled.limits.get(("namespace", namespace))
        yield rule_of(compiled.policy, "namespace", namespace, limit)
        label = sanitised(queue_name) if queue_name else None
        named = self.entry_of(namespace, queue_name, None)
        for queue in dict.fromkeys(each for each in (entry, named) if each):
            yield self._rule_of_entry(self.compiled[queue, self.policy_of(namespace, queue)], queue)
        if label is not None and named is None and (entry is None or sanitised(entry) != label):
            counts = self._without_entry(compiled.effective.name, label)
            limit = compiled.limits.get(("queue", label))
            yield rule_of(compiled.policy, "queue", label, limit, counts.bounded(label))

    def _rule_of_entry(self, compiled: CompiledPolicy, queue: str) -> QuotaRule | None:
        entry, label, policy = self.parts.queues[queue][0], sanitised(queue), compiled.policy
        counts = Counted(tuple(entry.namespaces) if entry.namespaces is not None else None)
        if entry.quota is None and entry.policy is None:
            # It is the policy's own limit, so it counts where pods follow the policy.
            if entry.namespaces is None:
                counts = self.followed[policy.name]
            else:
                followed = (n for n in entry.namespaces if self.policy_of(n, None) == policy.name)
                counts = Counted(tuple(followed))
        limit = compiled.limits.get(("queue", label))
        return rule_of(policy, "queue", label, limit, counts.bounded(*queue_keys(label, entry.id)))

    def _without_entry(self, policy: str, label: str) -> Counted:
        """Return where pods with this queue label follow a policy and no queue entry applies."""
        counts, queue = self.followed[policy], self.queue_by_label.get(label)
        served = self.parts.queues[queue][0].namespaces if queue is not None else None
        if not served:
            return counts
        if counts.namespaces is not None:
            return Counted(tuple(n for n in counts.namespaces if n not in served))
        return Counted(None, tuple(dict.fromkeys((*counts.other_namespaces, *served))))

    def _applies(self, entry: str, namespace: str) -> bool:
        namespaces = self.parts.queues[entry][0].namespaces
        return namespaces is None or namespace in namespaces
