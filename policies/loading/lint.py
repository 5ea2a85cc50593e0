"""Advice on valid policies, which `check` prints."""

from __future__ import annotations

from collections.abc import Iterator

from modes.registry import MODES
from policies.loading.build import resource_of
from policies.loading.policy_set import DEFAULT, PolicySet
from policies.loading.sources import Source
from policies.model.limiters import Limiter
from policies.model.problems import Problem


def lint(policy_set: PolicySet) -> list[Problem]:
    """Return advice on a valid set, by file and line."""
    found = {*_limiters(policy_set), *_unused(policy_set), *_quotas(policy_set), *_slices(policy_set)}
    return sorted({*found, *_fractions(policy_set)})


def _fractions(policy_set: PolicySet) -> Iterator[Problem]:
    """Yield what each text that is not a whole number of slices leaves unused."""
    parts = policy_set.parts
    for (queue, name), compiled in policy_set.compiled.items():
        policy, source = compiled.effective, parts.queues[queue][1] if queue else parts.policies[name][1]
        # A claim takes exactly the fraction.
        is_rounded = policy.writes_limits and not policy.mode.is_claimed
        for text, fraction in policy.fractions.items():
            if is_rounded and fraction.exact and source.line("fractions", text) is not None:
                unused = fraction.slices / policy.slices_per_gpu - fraction.ratio[0] / fraction.ratio[1]
                rule = f"takes {fraction.slices} of {policy.slices_per_gpu} slices and is limited to {text}"
                rule += f": each such pod leaves {unused:.1%} of a GPU unused"
                yield source.problem(rule, "fractions", text)


def _limiters(policy_set: PolicySet) -> Iterator[Problem]:
    parts = policy_set.parts
    users: list[tuple[str, Source]] = [(p.limiter, source) for p, source in parts.policies.values()]
    users += [(entry.limiter, source) for entry, source in parts.queues.values() if entry.limiter]
    for name, source in users:
        for rule in _of_limiter(parts.limiters[name][0]):
            yield source.problem(f'"{name}" {rule}', "limiter")


def _of_limiter(limiter: Limiter) -> Iterator[str]:
    if limiter.host_pid:
        yield "sets hostPID: Pod Security baseline and restricted reject such pods"
    limits = limiter.env or any(limiter.modes.of(mode).env for mode in MODES)
    if not (limits or limiter.ld_preload or limiter.image):
        yield "limits nothing: a neighbour's allocation decides which pod runs out of GPU memory"


def _unused(policy_set: PolicySet) -> Iterator[Problem]:
    named = {entry.policy for entry, _ in policy_set.parts.queues.values()}
    for name, (policy, source) in policy_set.parts.policies.items():
        if name != DEFAULT and not policy.namespaces and name not in named:
            yield source.problem("no namespace and no queue uses this policy: no pod will follow it", "name")


def _quotas(policy_set: PolicySet) -> Iterator[Problem]:
    for name, (policy, source) in policy_set.parts.policies.items():
        for namespace in policy.quotas.namespaces:
            if (followed := policy_set.policy_of(namespace, None)) != name:
                rule = f"pods of {namespace} follow policy {followed} unless their queue names another"
                yield source.problem(
                    f"{rule}: put quota and namespace into one policy", "quotas", "namespaces", namespace
                )
        if policy.quotas.queues and not policy.quotas.namespaces:
            rule = "users choose their queue's label: only a quota of the namespace always applies"
            yield source.problem(rule, "quotas", "queues")


def _slices(policy_set: PolicySet) -> Iterator[Problem]:
    first: dict[str, tuple[str, int]] = {}
    for name, (policy, source) in sorted(policy_set.parts.policies.items()):
        resource = resource_of(policy)
        other, slices = first.setdefault(resource, (name, policy.slices_per_gpu))
        if slices != policy.slices_per_gpu:
            rule = f"{policy.slices_per_gpu} differs from policy {other} ({slices}) on the same {resource}"
            yield source.problem(f"{rule}: keep their pods on different nodes", "slicesPerGpu")
