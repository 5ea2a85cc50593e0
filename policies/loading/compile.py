"""Compiles the parts of a directory to a policy set, for every combination of policy and queue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ledger.queue_names import sanitised
from policies.loading.build import effective_policy, resource_names
from policies.loading.checks import set_problems
from policies.loading.clearml_chart import BASE, ChartQueue, chart_queue, own_template, queue_problems
from policies.loading.policy_set import DEFAULT, CompiledPolicy, PolicySet
from policies.loading.relaxation import relaxations
from policies.loading.sources import Parts, Source
from policies.model.effective import EffectivePolicy
from policies.model.problems import PolicyError, Problem
from policies.model.queue_overrides import with_overrides
from policies.model.quotas import Counted, limits, limits_under
from policies.model.schema import QueueEntry

DIGEST_LENGTH = 12


def compile_policies(parts: Parts) -> PolicySet:
    """Check rules between parts, and compile every combination of policy and queue.

    Raises:
        PolicyError: with every problem.
    """
    by_namespace = {namespace: name for name, (p, _) in parts.policies.items() for namespace in p.namespaces}
    under = _policies_by_queue(parts, by_namespace)
    _raise_for(set_problems(parts, under))
    compiled = _compile_all(parts, under)
    _raise_for(chain(_relaxed(parts, compiled), _template_problems(parts, under, compiled)))
    digest = compiled[None, DEFAULT].effective.digest
    return PolicySet(
        digest,
        parts,
        compiled,
        by_namespace,
        {sanitised(queue): queue for queue in parts.queues},
        {entry.id: queue for queue, (entry, _) in parts.queues.items() if entry.id},
        _followed(parts),
        any(each.limits for each in compiled.values()),
    )


def _followed(parts: Parts) -> dict[str, Counted]:
    """Return the namespaces that follow each policy; `default` is for all that no other policy lists."""
    named = {name: Counted(tuple(policy.namespaces)) for name, (policy, _) in parts.policies.items()}
    others = chain.from_iterable(
        policy.namespaces for name, (policy, _) in parts.policies.items() if name != DEFAULT
    )
    return {**named, DEFAULT: Counted(None, tuple(others))}


def _raise_for(found: Iterator[Problem]) -> None:
    if problems := list(found):
        raise PolicyError(problems)


def _policies_by_queue(parts: Parts, by_namespace: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Return the policies that pods of each queue can follow, without undefined ones."""
    every = sorted({DEFAULT, *by_namespace.values()} & parts.policies.keys())
    found: dict[str, Sequence[str]] = {}
    for queue, (entry, _) in parts.queues.items():
        if entry.policy is not None:
            found[queue] = [entry.policy] if entry.policy in parts.policies else []
        elif entry.namespaces is None:
            found[queue] = every
        else:
            own = {by_namespace.get(namespace, DEFAULT) for namespace in entry.namespaces}
            found[queue] = sorted(own & parts.policies.keys())
    return found


def _compile_all(
    parts: Parts, under: Mapping[str, Sequence[str]]
) -> dict[tuple[str | None, str], CompiledPolicy]:
    """Compile each policy, also under each queue entry that its pods can have."""
    digest, names = _digest(parts), resource_names(policy for policy, _ in parts.policies.values())
    compiled: dict[tuple[str | None, str], CompiledPolicy] = {}
    for name, (policy, _) in parts.policies.items():
        effective = effective_policy(policy, parts.limiters[policy.limiter][0], digest, names)
        compiled[None, name] = CompiledPolicy(effective, policy, limits(policy))
    for queue, (entry, _) in parts.queues.items():
        for name in under[queue]:
            base = compiled[None, name]
            policy = with_overrides(base.policy, entry)
            effective = base.effective
            if policy is not base.policy:
                effective = effective_policy(policy, parts.limiters[policy.limiter][0], digest, names)
            compiled[queue, name] = CompiledPolicy(
                replace(effective, queue=queue), policy, limits_under(policy, base.limits, queue, entry)
            )
    return compiled


def _bases(parts: Parts) -> list[str]:
    """Return the policies that pods can follow by namespace, without a queue."""
    return sorted({DEFAULT, *(name for name, (policy, _) in parts.policies.items() if policy.namespaces)})


def _relaxed(parts: Parts, compiled: Mapping[tuple[str | None, str], CompiledPolicy]) -> Iterator[Problem]:
    """Yield entries for all namespaces that relax a pod's policy: pod authors choose the label themselves."""
    bases = _bases(parts)
    for queue, (entry, source) in parts.queues.items():
        if entry.namespaces is not None:
            continue
        for base in bases:
            over = compiled[queue, entry.policy or base]
            for key, what in relaxations(over, compiled[None, base]):
                rule = f"relaxes policy {base} ({what}) for every pod that has this queue's label"
                yield source.problem(f"{rule}: name the namespaces in which it applies", *_key(entry, key))


def _template_problems(
    parts: Parts,
    under: Mapping[str, Sequence[str]],
    compiled: Mapping[tuple[str | None, str], CompiledPolicy],
) -> Iterator[Problem]:
    """Yield pasted templates of the agent chart whose pods would be denied under every policy."""
    for name, (_, source) in parts.queues.items():
        base = Source(source.document, (BASE,))
        templates = [own_template(source), *([base] if base.line() is not None else ())]
        queue = chart_queue(name, source, templates)
        yield from _denied_under_all(queue, [compiled[name, policy].effective for policy in under[name]])
    for base in parts.base_templates:
        every = [compiled[None, policy].effective for policy in _bases(parts)]
        yield from _denied_under_all(chart_queue(DEFAULT, base, [base]), every)


def _denied_under_all(queue: ChartQueue, policies: Sequence[EffectivePolicy]) -> Iterator[Problem]:
    found = [list(queue_problems(queue, policy)) for policy in policies]
    if found and all(found):
        yield from found[0]


def _key(entry: QueueEntry, key: str) -> tuple[str, ...]:
    """Return the entry's key that relaxes: the key itself, or `policy`."""
    given = entry.model_dump(by_alias=True, exclude_none=True)
    return (key,) if key in given else ("policy",)


def _digest(parts: Parts) -> str:
    """Return the digest of the content, including the models' defaults, and the lock's number after it."""
    content = {
        kind: {name: part.model_dump(mode="json", by_alias=True) for name, (part, _) in table.items()}
        for kind, table in (
            ("policies", parts.policies),
            ("limiters", parts.limiters),
            ("queues", parts.queues),
        )
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{digest}.{parts.lock_number}" if parts.lock_number else digest
