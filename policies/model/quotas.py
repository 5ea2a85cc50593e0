"""Which quotas a pod counts against, by its namespace and queue."""

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
"""Sent to the ledger with each pod; a queue that is served in more of them is counted everywhere."""


class Counted(NamedTuple):
    """Which pods a quota of a queue counts: those that are held to it, wherever else its label is worn."""

    namespaces: tuple[str, ...] | None = None
    """None stands for all but `other_namespaces`."""
    other_namespaces: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def bounded(self, *keys: str) -> Counted:
        """Return the same for some keys of a queue, without lists that are too long to send."""
        if len(self.namespaces or self.other_namespaces) > MAX_NAMESPACES:
            return Counted(keys=keys)
        return self._replace(keys=keys)


EVERYWHERE = Counted()
Limits = MutableMapping[tuple[Scope, str], QuotaAmounts]
"""Never changed once made; mutable in type alone, for ChainMap."""


def limits(policy: Policy) -> Limits:
    """Return every limit of a policy; queues by their label."""
    table: dict[tuple[Scope, str], QuotaAmounts] = {}
    table.update({("namespace", name): amounts for name, amounts in policy.quotas.namespaces.items()})
    table.update({("queue", sanitised(name)): amounts for name, amounts in policy.quotas.queues.items()})
    return table


def limits_under(policy: Policy, table: Limits, queue: str, entry: QueueEntry) -> Limits:
    """Return the limits of a policy as a queue's entry changes them; the same object where it does not."""
    key: tuple[Scope, str] = ("queue", sanitised(queue))
    own = _of_entry(policy, entry, table.get(key))
    return ChainMap({key: own}, table) if own and own != table.get(key) else table


def rule_of(
    policy: Policy, scope: Scope, name: str, amounts: QuotaAmounts | None, counts: Counted = EVERYWHERE
) -> QuotaRule | None:
    """Return the rule that holds a pod of a policy to some amounts; None where these limit nothing."""
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
    """Return an entry's own limits, else the policy's; the chart's maxPods counts where neither says one."""
    amounts = entry.quota or inherited or QuotaAmounts()
    max_pods = entry.queue_settings.max_pods if policy.quotas.queue_max_pods else None
    if amounts.max_pods is None and max_pods is not None:
        amounts = amounts.model_copy(update={"max_pods": max_pods})
    return amounts if amounts.limits_anything else entry.quota
