"""Which quotas a pod counts against, by its namespace and queue."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, MutableMapping
from typing import Literal

from ledger.ask import Quota
from policies.effective import QuotaRule
from policies.model import Policy, QueueEntry, QuotaAmounts
from policies.queue_names import sanitised

Scope = Literal["namespace", "queue"]
Limits = MutableMapping[tuple[Scope, str], QuotaAmounts]
"""Never changed once made; mutable in type alone, for ChainMap."""


def limits(policy: Policy) -> Limits:
    """Every limit of a policy; queues by their label."""
    table: dict[tuple[Scope, str], QuotaAmounts] = {}
    table.update({("namespace", name): amounts for name, amounts in policy.quotas.namespaces.items()})
    table.update({("queue", sanitised(name)): amounts for name, amounts in policy.quotas.queues.items()})
    return table


def limits_under(policy: Policy, table: Limits, queue: str, entry: QueueEntry) -> Limits:
    """The limits of a policy as a queue's entry changes them; the very same table where it does not."""
    key: tuple[Scope, str] = ("queue", sanitised(queue))
    own = _of_entry(policy, entry, table.get(key))
    return ChainMap({key: own}, table) if own and own != table.get(key) else table


def rules(
    policy: Policy, table: Limits, namespace: str, queue_names: tuple[str, ...]
) -> tuple[QuotaRule, ...]:
    """The quotas of one pod: its namespace's, and its queue's under every name of the queue, label first."""
    return tuple(_rules(policy, table, namespace, queue_names))


def _rules(
    policy: Policy, table: Limits, namespace: str, queue_names: tuple[str, ...]
) -> Iterator[QuotaRule]:
    named: list[tuple[Scope, str, QuotaAmounts | None]] = [
        ("namespace", namespace, table.get(("namespace", namespace)))
    ]
    named += [("queue", name, table.get(("queue", queue_names[0]))) for name in queue_names]
    for scope, name, amounts in named:
        if amounts and (amounts.slices or amounts.max_pods):
            quota = Quota(scope, name, amounts.slices, amounts.max_pods)
            yield QuotaRule(quota, policy.quotas.when_degraded)


def _of_entry(policy: Policy, entry: QueueEntry, inherited: QuotaAmounts | None) -> QuotaAmounts | None:
    """An entry's own limits instead of the policy's; the chart's maxPods counts where neither says one."""
    amounts = entry.quota or inherited or QuotaAmounts()
    max_pods = entry.queue_settings.max_pods if policy.quotas.queue_max_pods else None
    if amounts.max_pods is None and max_pods is not None:
        amounts = amounts.model_copy(update={"max_pods": max_pods})
    return amounts if amounts.slices or amounts.max_pods else entry.quota
