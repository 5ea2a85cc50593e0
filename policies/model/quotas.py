"""The quotas that a pod counts against, by its namespace and queue."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from typing import Literal, NamedTuple

from ledger.placement_request import Quota
from ledger.queue_names import sanitised
from policies.model.effective import QuotaRule
from policies.model.schema import Policy, QueueEntry, QuotaAmounts

Scope = Literal["namespace", "queue"]
MAX_NAMESPACES = 1000
"""Namespaces of one quota, which are sent to the ledger with each pod. A queue in more of them counts in
all."""


class Counted(NamedTuple):
    """The pods that a queue's quota counts: only those that it applies to, wherever its label is used."""

    namespaces: tuple[str, ...] | None = None
    """None means all except `other_namespaces`."""
    other_namespaces: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def bounded(self, *keys: str) -> Counted:
        """Return the same for these keys of a queue, without lists that are too long to send."""
        if len(self.namespaces or self.other_namespaces) > MAX_NAMESPACES:
            return Counted(keys=keys)
        return self._replace(keys=keys)


EVERYWHERE = Counted()
Limits = MutableMapping[tuple[Scope, str], QuotaAmounts]
"""Never changed; the type is mutable only because ChainMap requires it."""


def limits(policy: Policy) -> Limits:
    """Return every limit of a policy, with queues by their label."""
    table: dict[tuple[Scope, str], QuotaAmounts] = {}
    table.update({("namespace", name): amounts for name, amounts in policy.quotas.namespaces.items()})
    table.update({("queue", sanitised(name)): amounts for name, amounts in policy.quotas.queues.items()})
    return table


def limits_under(policy: Policy, table: Limits, queue: str, entry: QueueEntry) -> Limits:
    """Return a policy's limits with a queue entry's changes; the same object if it changes nothing."""
    key: tuple[Scope, str] = ("queue", sanitised(queue))
    own = _of_entry(policy, entry, table.get(key))
    return ChainMap({key: own}, table) if own and own != table.get(key) else table


def rule_of(
    policy: Policy, scope: Scope, name: str, amounts: QuotaAmounts | None, counts: Counted = EVERYWHERE
) -> QuotaRule | None:
    """Return the rule for these amounts under a policy; None if they limit nothing."""
    if amounts is None or not amounts.limits_anything:
        return None
    quota = Quota(
        scope,
        name,
        amounts.slices,
        amounts.max_pods,
        counts.keys,
        counts.namespaces,
        counts.other_namespaces,
        amounts.memory_mib,
    )
    return QuotaRule(quota, policy.quotas.when_degraded)


def _of_entry(policy: Policy, entry: QueueEntry, inherited: QuotaAmounts | None) -> QuotaAmounts | None:
    """Return the entry's own limits, else the policy's; the chart's maxPods applies if neither has one."""
    amounts = entry.quota or inherited or QuotaAmounts()
    max_pods = entry.queue_settings.max_pods if policy.quotas.queue_max_pods else None
    if amounts.max_pods is None and max_pods is not None:
        amounts = amounts.model_copy(update={"max_pods": max_pods})
    return amounts if amounts.limits_anything else entry.quota
