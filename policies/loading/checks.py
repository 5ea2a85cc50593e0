"""Checks that involve several keys of one policy or limiter, or several files of a set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem

from modes.claim_name import has_name
from modes.fraction import Fraction
from modes.memory_text import memory_mib
from modes.mode import Mode, ModeName
from modes.registry import INSTANCE_MODE, MODES
from modes.units import EIGHTHS
from policies.loading.build import limits_source, memory_bounds, mode_of, resource_of
from policies.loading.clearml_chart import same_label_problems
from policies.loading.policy_set import DEFAULT
from policies.loading.sources import Parts, Source
from policies.model import placeholders
from policies.model.limiters import Limiter
from policies.model.problems import Problem, did_you_mean, quoted
from policies.model.schema import Policy, QueueEntry, QuotaAmounts


def set_problems(parts: Parts, under: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield broken rules in and between files; `under` holds the policies of each queue's pods."""
    if DEFAULT not in parts.policies:
        rule = "no policy is named default: add a file with kind: Policy and name: default"
        yield Problem(".", 0, "", rule)
    for policy, source in parts.policies.values():
        yield from _policy_problems(policy, source, parts)
    for limiter, source in parts.limiters.values():
        yield from _limiter_problems(limiter, source)
    yield from _prefix_problems(parts)
    yield from _namespace_problems(parts)
    yield from same_label_problems((name, source) for name, (_, source) in parts.queues.items())
    ids: dict[str, str] = {}
    for queue, (entry, source) in parts.queues.items():
        if entry.id and ids.setdefault(entry.id, queue) != queue:
            yield source.problem(f'"{entry.id}" is the id of queue "{ids[entry.id]}" already', "id")
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


def _entry_problems(parts: Parts, queue: str, under: Sequence[str]) -> Iterator[Problem]:
    entry, source = parts.queues[queue]
    if entry.policy is not None and entry.policy not in parts.policies:
        rule = f'policy "{entry.policy}" is not defined{did_you_mean(entry.policy, parts.policies)}'
        yield source.problem(rule, "policy")
        return
    policies = [parts.policies[name][0] for name in under]
    for size in sorted({policy.slices_per_gpu for policy in policies}):
        yield from _fraction_problems(entry.fractions, size, source)
    for mode in sorted({policy.resources.mode for policy in policies}):
        if entry.limiter is not None:
            yield from _limiter_name_problems(entry.limiter, mode, source, parts)
    if entry.prefer is not None:
        for problem in dict.fromkeys(_order_problems(entry, policies)):
            yield source.problem(problem, "prefer")
    of_slices = [_slices_problem(policy, entry.quota) for policy in policies]
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
        problem = _preference_problem(entry.prefer or (), mode_of(policy))
        if policy.resources.prefer is not None and problem is not None:
            yield problem


def _policy_problems(policy: Policy, source: Source, parts: Parts) -> Iterator[Problem]:
    """Yield broken rules that involve several keys of one policy."""
    yield from _fraction_problems(policy.fractions, policy.slices_per_gpu, source)
    yield from _memory_problems(policy, source)
    name = resource_of(policy)
    if (problem := mode_of(policy).name_problem(name)) is not None:
        yield source.problem(f"{quoted(name)} {problem}", "resources", "name")
    yield from _limiter_name_problems(policy.limiter, policy.resources.mode, source, parts)
    yield from _mode_problems(policy, mode_of(policy), source)
    yield from _driver_problems(policy, source)
    if limits_source(policy) == "agent":
        yield from _agent_problems(policy, source, parts)
    if policy.compute != "none" and (rule := _compute_problem(policy, parts)) is not None:
        yield source.problem(rule, "compute")
    if (rule := _alias_problem(policy, parts)) is not None:
        yield source.problem(rule, "aliases", "gpucores")
    yield from _plain_problems(policy, source)


def _plain_problems(policy: Policy, source: Source) -> Iterator[Problem]:
    """Yield broken rules that no mode and no other file has a part in."""
    if policy.quotas.when_degraded == "wait" != policy.quotas.when_over_quota:
        rule = "wait is only for whenOverQuota: wait, by which the controller may remove scheduling gates"
        yield source.problem(rule, "quotas", "whenDegraded")
    for number, toleration in enumerate(policy.tolerations):
        if toleration.key is None and toleration.operator != "Exists":
            yield source.problem("without a key the operator must be Exists", "tolerations", number)
        if toleration.operator == "Exists" and toleration.value:
            yield source.problem("operator Exists allows no value", "tolerations", number, "value")
    if policy.reclaim_idle == "evict" and policy.idle_after is None:
        yield source.problem("evict needs idleAfter: set it, such as idleAfter: 4h", "reclaimIdle")
    for number, sidecar in enumerate(policy.container.sidecars):
        if sidecar.name is None and sidecar.image is None:
            rule = "matches no sidecar: set its name, its image or both"
            yield source.problem(rule, "container", "sidecars", number)


def _fraction_problems(
    fractions: Mapping[str, int] | None, slices_per_gpu: int, source: Source
) -> Iterator[Problem]:
    """Yield texts that are not a fraction, and numbers of slices that are not the fewest that hold it."""
    for text, slices in (fractions or {}).items():
        try:
            fraction = Fraction.rounded_up(text, slices_per_gpu)
        except ValueError as error:
            yield source.problem(str(error), "fractions", text)
        else:
            if not has_name(fraction):
                yield source.problem("has too many digits: use at most 8 decimals", "fractions", text)
            if slices != fraction.slices:
                rounded = ", rounded up" if fraction.exact else ""
                rule = f'{slices} does not match the text: "{text}" of {slices_per_gpu} slices is'
                yield source.problem(f"{rule} {fraction.slices}{rounded}", "fractions", text)


def _limiter_name_problems(name: str, mode: ModeName, source: Source, parts: Parts) -> Iterator[Problem]:
    """Yield why a limiter cannot be used: it is not defined, or it cannot work in the mode."""
    if name not in parts.limiters:
        listed = f"known ones are {', '.join(sorted(parts.limiters))}"
        rule = f'"{name}" is not defined{did_you_mean(name, parts.limiters)}: {listed}; or add a file'
        yield source.problem(f"{rule} with kind: Limiter and name: {name}", "limiter")
    elif MODES[mode].needs_limiter:
        limiter, unknown = parts.limiters[name][0], MODES[mode].unknown_placeholders
        for variable, value in (limiter.env | limiter.modes.of(mode).env).items():
            for placeholder in unknown.intersection(placeholders.used(value)):
                rule = f'"{name}" uses {{{placeholder}}} in {variable}'
                yield source.problem(f"{rule}, but mode {mode} has no {placeholder}", "limiter")


def _limiter_problems(limiter: Limiter, source: Source) -> Iterator[Problem]:
    """Yield broken rules that involve several keys of one limiter."""
    init, library, cache = limiter.init_container, limiter.library, limiter.cache
    if (init is None) != (library is None):
        present = "initContainer" if init else "library"
        yield source.problem("initContainer and library need each other: the first fills the second", present)
    if init and init.env.get("NVIDIA_VISIBLE_DEVICES") != "void":
        rule = "must set NVIDIA_VISIBLE_DEVICES: void, or the container may get every GPU"
        yield source.problem(rule, "initContainer", "env")
    if library and cache and _overlap(library.mount_path, cache.mount_path):
        rule = f"{quoted(cache.mount_path)} and library.mountPath {quoted(library.mount_path)} overlap"
        yield source.problem(rule, "cache", "mountPath")


def _memory_problems(policy: Policy, source: Source) -> Iterator[Problem]:
    """Yield settings for memory that no pod may request, and bounds that exclude each other."""
    memory = policy.memory
    least, most = memory_mib(memory.min or ""), memory_mib(memory.max or "")
    if least and most and least > most:
        yield source.problem(f"{quoted(memory.min)} is more than max {quoted(memory.max)}", "memory", "min")
    if memory_bounds(policy) is not None:
        return
    rule = "memory that no pod may request: set allowed: true, or leave it out"
    for key, bound in (("min", memory.min), ("max", memory.max)):
        if bound is not None:
            yield source.problem(f"{quoted(bound)} bounds {rule}", "memory", key)
    if memory.decimal:
        yield source.problem(f"is about {rule}", "memory", "decimal")


def _mode_problems(policy: Policy, mode: type[Mode], source: Source) -> Iterator[Problem]:
    """Yield settings that the policy's mode does not support."""
    yield from _env_problems(policy, mode, f"in mode {mode.name}", source)
    if policy.resources.prefer is not None:
        yield from _preference_problems(policy, policy.resources.prefer, mode, source)
    yield from _unsupported(policy, mode, source)
    if mode.gives_instances:
        for text, slices in (policy.fractions or {}).items():
            if slices > EIGHTHS:
                rule = f"is {slices // EIGHTHS} GPUs, but a MIG instance is on one card: leave it out"
                yield source.problem(rule, "fractions", text)
    elif policy.resources.prefer is None and policy.resources.oversized != "wait":
        rule = "is about MIG instances, and pods get none: leave it out, or set prefer"
        yield source.problem(rule, "resources", "oversized")
    for scope, limits in (("namespaces", policy.quotas.namespaces), ("queues", policy.quotas.queues)):
        for name, amounts in limits.items():
            if (problem := _slices_problem(policy, amounts)) is not None:
                yield source.problem(problem, "quotas", scope, name, "slices")


def _preference_problem(prefer: Sequence[ModeName], mode: type[Mode]) -> str | None:
    """Return why these modes cannot be preferred under a policy's mode of slices; None if they can."""
    if mode.gives_instances:
        return f"needs a mode of slices, not {mode.name}: leave it out, or set mode: per-gpu"
    if sorted(prefer) != sorted([INSTANCE_MODE, mode.name]):
        return f"must list {INSTANCE_MODE} and the policy's own mode, {mode.name}, in either order"
    return None


def _preference_problems(
    policy: Policy, prefer: Sequence[ModeName], mode: type[Mode], source: Source
) -> Iterator[Problem]:
    """Yield settings that cannot hold for both slices and instances."""
    problem = _preference_problem(prefer, mode)
    if problem is not None:
        yield source.problem(problem, "resources", "prefer")
    if policy.slices_per_gpu != EIGHTHS:
        yield source.problem("MIG memory is counted in eighths: leave it out, or prefer", "slicesPerGpu")
    yield from _env_problems(policy, MODES[INSTANCE_MODE], "for MIG instances", source)


def _env_problems(policy: Policy, mode: type[Mode], where: str, source: Source) -> Iterator[Problem]:
    for name, value in policy.env.items():
        for placeholder in mode.unknown_placeholders.intersection(placeholders.used(value)):
            yield source.problem(f"{{{placeholder}}} has no value {where}", "env", name)


def _unsupported(policy: Policy, mode: type[Mode], source: Source) -> Iterator[Problem]:
    given, usual = (
        each.model_dump(by_alias=True) for each in (policy, Policy(kind="Policy", name=policy.name))
    )
    for key, rule in mode.unsupported.items():
        path = key.split(".")
        if reduce(getitem, path, given) != reduce(getitem, path, usual):
            yield source.problem(rule, *path)


def _driver_problems(policy: Policy, source: Source) -> Iterator[Problem]:
    """Yield settings that do not suit the DRA driver."""
    driver = policy.resources.driver
    if driver is None or "resources.driver" in mode_of(policy).unsupported:
        return
    if policy.limits.source == "agent" and not mode_of(policy).limits_itself(driver):
        rule = f"{driver} limits no memory, and the agent does not see its claims: leave it out"
        yield source.problem(rule, "limits", "from")
    if policy.resources.name is not None:
        yield source.problem("pods get a claim and no resource: leave it out", "resources", "name")


def _slices_problem(policy: Policy, amounts: QuotaAmounts | None) -> str | None:
    """Return why a quota cannot count what a policy's pods get in slices; None if it can, or does not.

    A claim counts as eighths, which must mean the same as the policy's slices.
    """
    if amounts is None or amounts.slices is None or policy.slices_per_gpu == EIGHTHS:
        return None
    rule = f"claims count as eighths of a card, and slicesPerGpu is {policy.slices_per_gpu}"
    return None if mode_of(policy).counts_slices else f"{rule}: use memoryMiB, or slicesPerGpu 8"


def _compute_problem(policy: Policy, parts: Parts) -> str | None:
    """Return why nothing would enforce the compute limit of the policy, or of a pod under it."""
    limiter = parts.limiters.get(policy.limiter)
    if policy.limits.source == "agent":
        return "the agent limits no compute: leave it out, or use limits.from admission"
    if limiter is not None and limiter[0].ld_preload is None:
        return f'limiter "{policy.limiter}" limits no compute: leave it out, or use hami-core'
    return None


def _alias_problem(policy: Policy, parts: Parts) -> str | None:
    """Return why a setting for HAMi's compute has no effect for any pod."""
    aliases = policy.aliases
    if aliases.gpucores != "deny" and not aliases.hami:
        return "is about HAMi's pods: set hami: true, or leave it out"
    if aliases.gpucores == "compute" and (policy.resources.prefer or mode_of(policy).gives_instances):
        return "a MIG instance has its own compute: set ignore or deny"
    return _compute_problem(policy, parts) if aliases.gpucores == "compute" else None


def _agent_problems(policy: Policy, source: Source, parts: Parts) -> Iterator[Problem]:
    """Yield settings that need MiB at admission, in a policy with limits from the agent."""
    limiter = parts.limiters[policy.limiter][0] if policy.limiter in parts.limiters else None
    if limiter is not None and (limiter.image is not None or limiter.host_pid):
        rule = f'"{policy.limiter}" works by the pod\'s image or hostPID, which the agent cannot set'
        yield source.problem(f"{rule}: use limits.from admission, or another limiter", "limiter")
    for name, value in policy.env.items():
        if "memory_mib" in placeholders.used(value):
            rule = "{memory_mib} has no value at admission with limits.from agent: leave the variable out"
            yield source.problem(rule, "env", name)


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
