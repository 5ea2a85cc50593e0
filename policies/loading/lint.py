"""Advice on valid policies, which `check` prints."""

from __future__ import annotations

from collections.abc import Iterator

from modes.fraction import Fraction
from modes.registry import MODES
from policies.loading.build import limits_source, mode_of, resource_of
from policies.loading.policy_set import DEFAULT, PolicySet
from policies.loading.sources import Source
from policies.model.limiters import Limiter
from policies.model.problems import Problem
from policies.model.schema import Policy


def lint(policy_set: PolicySet) -> list[Problem]:
    """Return advice on a valid set, by file and line."""
    found = {*_limiters(policy_set), *_unused(policy_set), *_quotas(policy_set), *_slices(policy_set)}
    return sorted({*found, *_fractions(policy_set), *_containers(policy_set), *_memory(policy_set)})


def _containers(policy_set: PolicySet) -> Iterator[Problem]:
    for policy, source in policy_set.parts.policies.values():
        mode = MODES[policy.resources.mode]
        if policy.containers == "any-gpu" and mode.several_gpus_problem is not None:
            rule = f"any-gpu has no effect in mode {mode.name}, in which placement chooses no GPUs"
            yield source.problem(rule, "containers")


def _memory(policy_set: PolicySet) -> Iterator[Problem]:
    for policy, source in policy_set.parts.policies.values():
        if policy.memory.allowed and policy.limits.source == "agent" and not mode_of(policy).is_claimed:
            rule = "with limits.from agent, a pod's limit is the fewest slices that hold its request"
            yield source.problem(rule, "memory", "allowed")


def _limits_exactly(policy: Policy) -> bool:
    """Whether a share that is no whole number of slices is limited to its text."""
    return limits_source(policy) == "admission" or mode_of(policy).is_claimed


def _fractions(policy_set: PolicySet) -> Iterator[Problem]:
    """Yield what each text that is not a whole number of slices leaves unused."""
    parts = policy_set.parts
    tables = [
        (policy.fractions, policy.slices_per_gpu, _limits_exactly(policy), source)
        for policy, source in parts.policies.values()
    ]
    for queue, (entry, source) in parts.queues.items():
        effective = [each.effective for key, each in policy_set.compiled.items() if key[0] == queue]
        under = {(each.slices_per_gpu, each.writes_limits or each.mode.is_claimed) for each in effective}
        tables += [(entry.fractions, *each, source) for each in under]
    for table, slices_per_gpu, writes_limits, source in tables:
        for text in table or ():
            fraction = Fraction.rounded_up(text, slices_per_gpu)
            if fraction.is_rounded_up and not writes_limits:
                rule = f"takes {fraction.slices} of {slices_per_gpu} slices; with limits.from agent, it"
                yield source.problem(f"{rule} is limited to these, not to {text}", "fractions", text)
            elif fraction.is_rounded_up:
                rule = f"takes {fraction.slices} of {slices_per_gpu} slices and is limited to {text}"
                unused = fraction.slices / slices_per_gpu - fraction.ratio[0] / fraction.ratio[1]
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
                    f"{rule}: put quota and namespace into one policy",
                    "quotas",
                    "namespaces",
                    namespace,
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
