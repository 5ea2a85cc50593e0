"""The policy of one namespace and queue, key by key, with the origin of each value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from policies.loading.policy_set import PolicySet
from policies.loading.sources import Source
from policies.model.queue_overrides import key_of

BUILT_IN = "built-in default"


@dataclass(frozen=True, slots=True)
class Value:
    """One key of a policy, as in a file."""

    path: tuple[str, ...]
    value: Any
    origin: str
    """`file:line`, or that it is a default."""


def trace(
    policy_set: PolicySet, namespace: str, queue_name: str | None, queue_id: str | None
) -> Iterator[Value]:
    """Yield every key of the policy that applies, in the order of the model."""
    entry = policy_set.entry_of(namespace, queue_name, queue_id)
    name = policy_set.policy_of(namespace, entry)
    source = policy_set.parts.policies[name][1]
    effective = policy_set.resolve(namespace, queue_name, queue_id)
    policy = policy_set.compiled[entry, name].policy
    content = policy.model_dump(mode="json", by_alias=True, exclude={"kind", "quotas"})
    content["fractions"] = {text: fraction.slices for text, fraction in effective.fractions.items()}
    content["resources"]["name"] = effective.mode.resource
    for path, value in _leaves((), content):
        if path == ("limiter",) and not effective.mode.needs_limiter:
            yield Value(path, effective.limiter.name, f"mode {effective.mode.name}")
        else:
            yield Value(path, value, _origin(policy_set, entry, source, path))
    for rule in effective.quotas:
        quota = rule.quota
        amounts = {"slices": quota.slices, "maxPods": quota.max_pods, "memoryMiB": quota.memory_mib}
        for unit, amount in amounts.items():
            if amount is not None:
                path = ("quotas", f"{rule.quota.scope}s", rule.quota.name, unit)
                yield Value(path, amount, _quota_origin(policy_set, entry, source, path))


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value and path != ("fractions",):
        for key, item in value.items():
            yield from _leaves((*path, key), item)
    else:
        yield path, value


def _origin(policy_set: PolicySet, entry: str | None, source: Source, path: tuple[str, ...]) -> str:
    """Return the line of the queue entry's key if it sets one, else the policy's own."""
    key = key_of(path)
    if entry is not None and key is not None:
        line = policy_set.parts.queues[entry][1].line(key)
        if line is not None:
            return f"{line}, queue {entry}"
    return source.line(*path) or BUILT_IN


def _quota_origin(policy_set: PolicySet, entry: str | None, source: Source, path: tuple[str, ...]) -> str:
    """Return the line of the queue entry's quota if it has one, else the policy's own."""
    if entry is not None and path[1] == "queues":
        own = policy_set.parts.queues[entry][1]
        line = own.line("quota", path[-1]) or own.line("queueSettings", path[-1])
        if line is not None:
            return f"{line}, queue {entry}"
    return source.line(*path) or source.line("quotas", "queues") or BUILT_IN
