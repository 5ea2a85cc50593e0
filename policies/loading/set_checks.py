"""Checks across the files of a set: missing, duplicate and conflicting names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ledger.queue_names import sanitised
from policies.loading.build import limits_source, mode_of, resource_of
from policies.loading.checks import (
    fraction_problems,
    limiter_name_problems,
    limiter_problems,
    policy_problems,
    preference_problem,
    slices_problem,
)
from policies.loading.policy_set import DEFAULT
from policies.loading.sources import Parts
from policies.model.problems import Problem, did_you_mean
from policies.model.schema import Policy, QueueEntry


def set_problems(parts: Parts, under: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield broken rules in and between files; `under` holds the policies of each queue's pods."""
    if DEFAULT not in parts.policies:
        rule = "no policy is named default: add a file with kind: Policy and name: default"
        yield Problem(".", 0, "", rule)
    for policy, source in parts.policies.values():
        yield from policy_problems(policy, source, parts)
    for limiter, source in parts.limiters.values():
        yield from limiter_problems(limiter, source)
    yield from _prefix_problems(parts)
    yield from _namespace_problems(parts)
    yield from _queue_name_problems(parts)
    for queue in parts.queues:
        yield from _entry_problems(parts, queue, under[queue])


def _prefix_problems(parts: Parts) -> Iterator[Problem]:
    """Yield second name patterns: the ledger counts only one, and would allocate other GPUs twice."""
    first: tuple[str, str] | None = None
    for name, (policy, source) in sorted(parts.policies.items()):
        prefix = mode_of(policy).index_prefix(resource_of(policy))
        if prefix is None:
            continue
        first = first or (name, prefix)
        if prefix != first[1]:
            rule = f'"{prefix}{{index}}" is not the "{first[1]}{{index}}" of policy {first[0]}: use one name'
            yield source.problem(rule, "resources", "name")


def _namespace_problems(parts: Parts) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name, (policy, source) in parts.policies.items():
        for number, namespace in enumerate(policy.namespaces):
            if namespace in first:
                rule = f'"{namespace}" belongs to policy {first[namespace]} already: keep it in one'
                yield source.problem(rule, "namespaces", number)
            first.setdefault(namespace, name)


def _queue_name_problems(parts: Parts) -> Iterator[Problem]:
    labels: dict[str, str] = {}
    ids: dict[str, str] = {}
    for queue, (entry, source) in parts.queues.items():
        if (label := sanitised(queue)) in labels:
            rule = f'becomes the label "{label}", like queue "{labels[label]}": pods of both look the same'
            yield source.problem(rule)
        if entry.id and entry.id in ids:
            yield source.problem(f'"{entry.id}" is the id of queue "{ids[entry.id]}" already', "id")
        labels.setdefault(label, queue)
        ids.setdefault(entry.id or "", queue)


def _entry_problems(parts: Parts, queue: str, under: Sequence[str]) -> Iterator[Problem]:
    entry, source = parts.queues[queue]
    if entry.policy is not None and entry.policy not in parts.policies:
        rule = f'policy "{entry.policy}" is not defined{did_you_mean(entry.policy, parts.policies)}'
        yield source.problem(rule, "policy")
        return
    policies = [parts.policies[name][0] for name in under]
    for size in sorted({policy.slices_per_gpu for policy in policies}):
        yield from fraction_problems(entry.fractions, size, source)
    for mode in sorted({policy.resources.mode for policy in policies}):
        if entry.limiter is not None:
            yield from limiter_name_problems(entry.limiter, mode, source, parts)
    if entry.prefer is not None:
        for problem in dict.fromkeys(_order_problems(entry, policies)):
            yield source.problem(problem, "prefer")
    of_slices = [slices_problem(policy, entry.quota) for policy in policies]
    for problem in dict.fromkeys(filter(None, of_slices)):
        yield source.problem(problem, "quota", "slices")
    lacking = [policy.name for policy in policies if policy.idle_after is None]
    if entry.reclaim_idle == "evict" and entry.idle_after is None and lacking:
        yield source.problem(f"evict needs idleAfter, here or in policy {lacking[0]}", "reclaimIdle")
    if entry.limiter is not None and any(limits_source(policy) == "agent" for policy in policies):
        rule = "has no effect under a policy with limits.from agent, which limits all pods of a node alike"
        yield source.problem(f"{rule}: leave it out", "limiter")


def _order_problems(entry: QueueEntry, policies: Sequence[Policy]) -> Iterator[str]:
    """Yield problems in a queue's order of slices and instances, once for all policies."""
    lacking = [policy.name for policy in policies if policy.resources.prefer is None]
    if lacking:
        where = "" if entry.namespaces else ", or restrict the entry by namespaces"
        what = f"resources.prefer is missing in policy {', '.join(lacking)}: add it{where}"
        yield f"orders slices and instances, but {what}"
    for policy in policies:
        problem = preference_problem(entry.prefer or (), mode_of(policy))
        if policy.resources.prefer is not None and problem is not None:
            yield problem
