"""Checks of policies whose pods get ResourceClaims, which the ledger does not count."""

from __future__ import annotations

from collections.abc import Iterator

from policies.loading.build import mode_of, resource_of
from policies.loading.sources import Source
from policies.model.problems import Problem
from policies.model.schema import Policy

UNCOUNTED = "the ledger does not count claims yet: leave it out, or use mode per-gpu"
"""For every setting of a quota."""


def claim_problems(policy: Policy, source: Source) -> Iterator[Problem]:
    """Yield settings that the policy's mode cannot keep, because the scheduler places its pods."""
    resources, mode = policy.resources, mode_of(policy)
    if not mode.is_claimed:
        if resources.driver is not None:
            rule = f"mode {mode.name} has no DRA driver: leave it out, or change the mode"
            yield source.problem(rule, "resources", "driver")
        return
    if policy.limits.source == "agent" and not mode.limits_itself(resource_of(policy)):
        rule = f"{resources.driver} limits no memory, and the agent does not see its claims: leave it out"
        yield source.problem(rule, "limits", "from")
    if resources.driver is not None and resources.name is not None:
        yield source.problem("pods get a claim and no resource: leave it out", "resources", "name")
    for path, is_set, rule in _refused(policy):
        if is_set:
            yield source.problem(rule, *path)


def _refused(policy: Policy) -> Iterator[tuple[tuple[str, ...], bool, str]]:
    """Yield each setting by its path, whether the policy has it, and why it may not."""
    quotas = policy.quotas
    yield ("quotas", "namespaces"), bool(quotas.namespaces), UNCOUNTED
    yield ("quotas", "queues"), bool(quotas.queues), UNCOUNTED
    yield ("quotas", "queueMaxPods"), quotas.queue_max_pods, UNCOUNTED
    yield ("quotas", "whenOverQuota"), quotas.when_over_quota != "deny", UNCOUNTED
    yield ("place",), policy.place != "pack", "the scheduler chooses node and card: leave it out"
    yield ("sameModel",), policy.same_model, "the scheduler chooses the card: use the annotation gpu-model"
    yield (
        ("containers",),
        policy.containers != "same-gpu",
        "a pod has one claim, for one container: leave it out",
    )
    yield (
        ("compute",),
        policy.compute != "none",
        "a claim is for memory, and nothing limits compute: leave it out",
    )
    reserve = "the DRA driver leaves its own reserve out of what it offers: leave it out"
    yield ("memory", "reserveMiB"), bool(policy.memory.reserve_mib), reserve
    aliases = "other systems' words become no claims yet: leave it out, or use mode per-gpu"
    yield ("aliases",), bool(policy.aliases.systems), aliases
