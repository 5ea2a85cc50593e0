"""Builds what pods get from checked parts of a policy, and the resource names that the ledger counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ledger.placement_request import Assumption, Demands
from modes.fraction import Fraction
from modes.memory_text import memory_mib
from modes.mig_profiles import MIG_RESOURCE_PREFIX
from modes.mode import DEFAULT_MODE, Mode, ModeName
from modes.registry import INSTANCE_MODE, MODES
from modes.resource_names import ResourceNames
from policies.model.allowances import Allowances
from policies.model.effective import (
    COMPUTE_LIMIT,
    NO_LIMITER,
    EffectiveLimiter,
    EffectivePolicy,
    EnvVar,
    IdleRule,
    LimitsFrom,
    MemoryBounds,
)
from policies.model.limiters import Limiter
from policies.model.schema import Allow, Policy
from policies.model.sidecars import Sidecar

CONTRACT = ("0.125", "0.250", "0.375", "0.500", "0.625", "0.750", "0.875")
"""The label texts of ClearML's documentation."""


def effective_limiter(limiter: Limiter, mode: ModeName, compute: str | int = "none") -> EffectiveLimiter:
    """Return a limiter for one mode, with the policy's limit on compute."""
    part = limiter.modes.of(mode)
    compute_env = {}
    if compute != "none" and limiter.ld_preload is not None:
        compute_env[COMPUTE_LIMIT] = "{percent}" if compute == "same-as-memory" else str(compute)
    return EffectiveLimiter(
        name=limiter.name,
        env=_env(compute_env | limiter.env | part.env),
        preload=limiter.ld_preload,
        init_container=limiter.init_container,
        library=limiter.library,
        cache=limiter.cache,
        host_pid=limiter.host_pid,
        image_pattern=limiter.image.pattern if limiter.image else None,
    )


def effective_policy(policy: Policy, limiter: Limiter, digest: str, names: ResourceNames) -> EffectivePolicy:
    """Return a checked policy without quotas, which depend on the pod's namespace and queue."""
    return EffectivePolicy(
        memory=memory_bounds(policy),
        name=policy.name,
        digest=digest,
        slices_per_gpu=policy.slices_per_gpu,
        fractions=_fraction_table(policy),
        mode=_mode(policy, names),
        limiter=_limiter(policy, limiter),
        env=_env(policy.env),
        reserve_mib=policy.memory.reserve_mib,
        container_names=tuple(policy.container.names),
        sidecars=tuple(Sidecar(each.name, each.image) for each in policy.container.sidecars),
        hide_gpus_from_others=policy.hide_gpus_from_others,
        refuse_privileged=policy.privileged,
        runtime_class_name=policy.runtime_class_name,
        tolerations=tuple(t.model_dump(by_alias=True, exclude_none=True) for t in policy.tolerations),
        quotas=(),
        allow=_allowances(policy.allow),
        protected_host_paths=tuple(map(_on_node, policy.protected_host_paths)),
        demands=_demands(policy),
        max_gpus=policy.max_gpus,
        containers=policy.containers,
        aliases=policy.aliases.systems,
        gpucores=policy.aliases.gpucores,
        other_scheduler=policy.aliases.scheduler_name,
        compute=policy.compute,
        limits_from=limits_source(policy),
        instance_mode=_instance_mode(policy, names),
        gives_share=policy.share == "label",
        idle=idle_rule(policy),
    )


def idle_rule(policy: Policy) -> IdleRule | None:
    """Return when shares under a policy are idle; None if it does not say."""
    if policy.idle_after is None:
        return None
    grace = seconds_of(policy.reclaim_grace)
    return IdleRule(seconds_of(policy.idle_after), policy.reclaim_idle == "evict", grace)


def seconds_of(period: str) -> int:
    """Return a checked period such as `30m` in seconds."""
    return int(period[:-1]) * (3600 if period.endswith("h") else 60)


def _demands(policy: Policy) -> Demands:
    assume = policy.assume
    return Demands(
        prefer=tuple(policy.resources.prefer or ()),
        oversized=policy.resources.oversized,
        place=policy.place,
        same_model=policy.same_model,
        when_over_quota=policy.quotas.when_over_quota,
        assume=Assumption(assume.gpus_per_node, assume.gpu_memory_mib) if assume else None,
    )


def _mode(policy: Policy, names: ResourceNames) -> Mode:
    prefix = MIG_RESOURCE_PREFIX if policy.resources.prefer else ""
    return mode_of(policy)(resource_of(policy), names, _allowances(policy.allow).harmless_resources, prefix)


def _limiter(policy: Policy, limiter: Limiter) -> EffectiveLimiter:
    """Return the policy's limiter in its mode; none if hardware limits."""
    if not mode_of(policy).needs_limiter:
        return NO_LIMITER
    # A driver that limits knows the card, and a variable by number overrides the form for all cards.
    by_card = mode_of(policy).limits_itself(resource_of(policy))
    return effective_limiter(limiter, DEFAULT_MODE if by_card else policy.resources.mode, policy.compute)


def _instance_mode(policy: Policy, names: ResourceNames) -> Mode | None:
    """Return the mode of MIG instances if pods of the policy may get them."""
    if not (policy.resources.prefer or mode_of(policy).gives_instances):
        return None
    mode = MODES[INSTANCE_MODE]
    return mode(mode.default_resource, names, _allowances(policy.allow).harmless_resources)


def _fraction_table(policy: Policy) -> dict[str, Fraction]:
    """Return the table of a checked policy; by default the texts that are a whole number of slices."""
    size = policy.slices_per_gpu
    if policy.fractions is not None:
        return {text: Fraction.rounded_up(text, size) for text in policy.fractions}
    found = {text: Fraction.rounded_up(text, size) for text in CONTRACT}
    return {text: fraction for text, fraction in found.items() if fraction.exact is None}


def _env(variables: Mapping[str, str]) -> tuple[EnvVar, ...]:
    return tuple(EnvVar(name, value) for name, value in variables.items())


def mode_of(policy: Policy) -> type[Mode]:
    """Return the policy's mode."""
    return MODES[policy.resources.mode]


def resource_of(policy: Policy) -> str:
    """Return the policy's `resources.name`, or its mode's default; in a mode of claims, their driver."""
    resources = policy.resources
    return resources.driver or resources.name or mode_of(policy).default_resource


def limits_source(policy: Policy) -> LimitsFrom:
    """Return what limits the policy's shares."""
    return "agent" if mode_of(policy).limits_itself(resource_of(policy)) else policy.limits.source


def resource_names(policies: Iterable[Policy]) -> ResourceNames:
    """Return the extended resources that policies put into pods, and NVIDIA's default ones."""
    defaults = ResourceNames()
    prefixes: set[str] = set()
    pooled = set(defaults.pooled)
    for policy in policies:
        if not mode_of(policy).counts_slices:
            continue
        resource = resource_of(policy)
        prefix = mode_of(policy).index_prefix(resource)
        if prefix is None:
            pooled.add(resource)
        else:
            prefixes.add(prefix)
    return ResourceNames(min(prefixes, default=defaults.per_gpu_prefix), tuple(sorted(pooled)))


def _allowances(allow: Allow) -> Allowances:
    return Allowances(
        frozenset(allow.host_paths),
        frozenset(allow.capabilities),
        allow.override_env,
        frozenset(allow.resources),
        allow.host_ipc,
        frozenset(allow.device_classes),
    )


def _on_node(path: str) -> str:
    """Return a path as nodes resolve it: /var/run is a link to /run."""
    return path.removeprefix("/var") if f"{path}/".startswith("/var/run/") else path


def memory_bounds(policy: Policy) -> MemoryBounds | None:
    """Return the bounds of memory that pods may request; None if they may request only fractions."""
    memory = policy.memory
    if not (memory.allowed if memory.allowed is not None else policy.fractions is None):
        return None
    least, most = memory_mib(memory.min or "") or 0, memory_mib(memory.max or "") or 0
    return MemoryBounds(least, most, memory.decimal)
