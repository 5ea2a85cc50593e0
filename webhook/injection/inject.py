"""Second half of a decision: the patch that gives a planned pod the placement's share."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.ask import Placement
from webhook.injection.affinity import bind_node
from webhook.injection.again import memory_mib
from webhook.injection.annotations import (
    GPU_CONTAINER,
    GPU_INDEX,
    INJECTED,
    MEMORY_MIB,
    RESERVATION,
    SLICES,
    index_text,
    write_annotations,
)
from webhook.injection.env import hide_gpus, limit_env
from webhook.injection.gpu_resources import replace_amounts
from webhook.injection.images import choose_image
from webhook.injection.limiter import Volumes
from webhook.injection.patch import Operation, add, append
from webhook.injection.placeholders import fill_env, share_values
from webhook.injection.plan import Plan
from webhook.reasons import Denial, Reason


@dataclass(frozen=True, slots=True)
class Injection:
    """What a labelled pod gets."""

    operations: list[Operation]
    """JSON Patch; empty when nothing is missing."""
    container: str
    slices: int
    placement: Placement
    memory_mib: int | None
    """MiB of the share on each of its GPUs; None for whole GPUs, which have no limit."""


def inject(plan: Plan, placement: Placement) -> Injection | Denial:
    """Write the patch for a plan and a placement. Deterministic, without effects.

    Parents come before children, and what we insert at the front of a list comes last, so that each
    path holds when it is applied.
    """
    mib = memory_mib(plan.fraction, placement.gpu_mib, plan.policy)
    if mib is not None and mib <= 0:
        return _no_memory(plan, placement)
    images = choose_image(plan.containers.chosen, plan.limiter, mib, placement.gpu_mib)
    if isinstance(images, Denial):
        return images
    operations = [
        *write_annotations(plan.metadata, _annotations(plan, placement, mib)),
        *images,
        *_gpu_containers(plan, placement, mib),
        *_others(plan),
        *_pod(plan),
        *bind_node(plan.spec, placement.memory_values, placement.node),
        *_limiter_volumes(plan),
    ]
    chosen = plan.containers.chosen.container.name
    return Injection(operations, chosen, plan.fraction.slices, placement, mib)


def _annotations(plan: Plan, placement: Placement, mib: int | None) -> dict[str, str]:
    values = {
        INJECTED: plan.policy.marker,
        SLICES: str(plan.fraction.slices),
        GPU_CONTAINER: plan.containers.chosen.container.name,
    }
    if placement.indices:
        values[GPU_INDEX] = index_text(placement.indices)
    if mib is not None:
        values[MEMORY_MIB] = str(mib)
    if placement.reservation is not None:
        values[RESERVATION] = placement.reservation
    return values


def _gpu_containers(plan: Plan, placement: Placement, mib: int | None) -> list[Operation]:
    amounts = plan.mode.amounts(plan.fraction, placement.indices)
    shared = share_values(plan.fraction, placement.indices, mib, plan.namespace)
    variables = (*plan.limiter.env, *plan.policy.env)
    operations: list[Operation] = []
    for slot in plan.containers.gpu:
        values = {**shared, "container": slot.container.name}
        operations += replace_amounts(slot, amounts)
        operations += limit_env(slot, fill_env(variables, values), plan.limiter.preload)
    return operations


def _others(plan: Plan) -> list[Operation]:
    if not plan.policy.hide_gpus_from_others:
        return []
    return [operation for slot in plan.containers.others for operation in hide_gpus(slot)]


def _pod(plan: Plan) -> list[Operation]:
    spec, policy = plan.spec, plan.policy
    operations: list[Operation] = []
    if plan.limiter.host_pid and not spec.host_pid:
        operations.append(add("/spec/hostPID", value=True))
    if policy.runtime_class_name is not None and spec.runtime_class_name is None:
        operations.append(add("/spec/runtimeClassName", policy.runtime_class_name))
    present = [(t.key, t.operator, t.value, t.effect) for t in spec.tolerations or ()]
    missing = [
        dict(toleration)
        for toleration in policy.tolerations
        if tuple(toleration.get(name) for name in ("key", "operator", "value", "effect")) not in present
    ]
    return [*operations, *append("/spec/tolerations", spec.tolerations, missing)]


def _limiter_volumes(plan: Plan) -> list[Operation]:
    volumes = Volumes(plan.spec, plan.limiter, plan.written)
    mounts = [operation for slot in plan.containers.gpu for operation in volumes.mount(slot)]
    init = volumes.add_init_container(plan.containers.chosen.container)
    return [*mounts, *volumes.add(), *init]


def _no_memory(plan: Plan, placement: Placement) -> Denial:
    share = plan.fraction.share_mib(placement.gpu_mib)
    return Denial.of(
        Reason.MEMORY,
        f"the share is {share} MiB of a GPU of {placement.gpu_mib}, and policy {plan.policy.name} reserves"
        f" {plan.policy.reserve_mib} of it: use a larger fraction",
    )
