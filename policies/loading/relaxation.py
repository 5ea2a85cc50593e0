"""Finds what a queue entry relaxes, compared with the policy that a pod would have without it."""

from __future__ import annotations

from collections.abc import Iterator

from modes.memory_text import memory_text
from policies.loading.policy_set import CompiledPolicy
from policies.model.effective import EffectivePolicy, IdleRule, MemoryBounds


def relaxations(over: CompiledPolicy, base: CompiledPolicy) -> Iterator[tuple[str, str]]:
    """Yield each relaxed value, as the entry's key for it and half a sentence."""
    yield from _of_values(over.effective, base.effective)
    if over.effective.gives_share and not base.effective.gives_share:
        yield "share", "share label instead of none"
    yield from (("quota", what) for what in _of_limits(over, base))
    degraded, former = over.policy.quotas.when_degraded, base.policy.quotas.when_degraded
    if base.limits and degraded == "admit" != former:
        yield "policy", f"quotas.whenDegraded admit instead of {former}"


def _of_values(over: EffectivePolicy, base: EffectivePolicy) -> Iterator[tuple[str, str]]:
    if base.limiter.name not in {"none", over.limiter.name}:
        yield "limiter", f"limiter {over.limiter.name} instead of {base.limiter.name}"
    if base.limits_from != over.limits_from and over.limits_from == "agent":
        yield "policy", "limits.from agent instead of admission"
    if more := [text for text in over.fractions if text not in base.fractions]:
        yield "fractions", f'fraction "{more[0]}"'
    yield from _of_memory(over.memory, base.memory)
    yield from _of_gpus(over, base)
    if over.reserve_mib < base.reserve_mib:
        yield "policy", f"memory.reserveMiB {over.reserve_mib} instead of {base.reserve_mib}"
    assume, former = over.demands.assume, base.demands.assume
    if assume is not None and (former is None or assume.gpu_mib > former.gpu_mib):
        instead = former.gpu_mib if former is not None else "none"
        yield "policy", f"assume.gpuMemoryMiB {assume.gpu_mib} instead of {instead}"
    if over.refuse_privileged != base.refuse_privileged and base.refuse_privileged == "any-container":
        yield "policy", f"privileged {over.refuse_privileged}"
    for what in over.allow.beyond(base.allow):
        yield "policy", what
    for path in sorted({*base.protected_host_paths} - {*over.protected_host_paths}):
        yield "policy", f"protectedHostPaths without {path}"
    yield from _of_idle(over.idle, base.idle)
    if base.hide_gpus_from_others and not over.hide_gpus_from_others:
        yield "policy", "hideGpusFromOthers false"


def _of_gpus(over: EffectivePolicy, base: EffectivePolicy) -> Iterator[tuple[str, str]]:
    if base.compute not in {"none", over.compute}:
        yield "policy", f"compute {over.compute} instead of {base.compute}"
    if over.max_gpus > base.max_gpus:
        yield "policy", f"maxGpus {over.max_gpus} instead of {base.max_gpus}"


def _of_idle(over: IdleRule | None, base: IdleRule | None) -> Iterator[tuple[str, str]]:
    if base is None or not base.evicts:
        return
    if over is None or not over.evicts:
        yield "reclaimIdle", "reclaimIdle never instead of evict"
    elif over.after_seconds > base.after_seconds:
        yield "idleAfter", f"idleAfter {over.after_seconds // 60}m instead of {base.after_seconds // 60}m"
    elif over.grace_seconds > base.grace_seconds:
        yield "policy", f"reclaimGrace {over.grace_seconds // 60}m instead of {base.grace_seconds // 60}m"


def _of_memory(over: MemoryBounds | None, base: MemoryBounds | None) -> Iterator[tuple[str, str]]:
    if over is None:
        return
    if base is None:
        yield "policy", "memory.allowed true"
        return
    if over.min_mib < base.min_mib:
        yield "policy", f"memory.min {memory_text(over.min_mib)} instead of {memory_text(base.min_mib)}"
    if base.max_mib and not 0 < over.max_mib <= base.max_mib:
        most = memory_text(over.max_mib) if over.max_mib else "none"
        yield "policy", f"memory.max {most} instead of {memory_text(base.max_mib)}"


def _of_limits(over: CompiledPolicy, base: CompiledPolicy) -> Iterator[str]:
    if over.limits is base.limits:
        return
    for (scope, name), amounts in base.limits.items():
        now = over.limits.get((scope, name))
        sizes = over.effective.slices_per_gpu, base.effective.slices_per_gpu
        for unit, limit, new, (size, former) in (
            ("slices", amounts.slices, now.slices if now else None, sizes),
            ("maxPods", amounts.max_pods, now.max_pods if now else None, (1, 1)),
            ("memoryMiB", amounts.memory_mib, now.memory_mib if now else None, (1, 1)),
        ):
            if limit is not None and (new is None or new * former > limit * size):
                amount = "no limit" if new is None else str(new)
                larger = f", of {size} to a GPU instead of {former}" if size < former else ""
                yield f"quota of {scope} {name}: {amount} instead of {limit} {unit}{larger}"
