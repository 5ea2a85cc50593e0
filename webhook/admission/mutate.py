"""Second half of a decision: the patch that gives a planned pod the placement's share."""

from __future__ import annotations

import msgspec

from ledger.placement_request import Placement
from webhook.admission.affinity import bind_node
from webhook.admission.annotations import GPU_CONTAINER, GPU_INDEX, RESERVATION, write_annotations
from webhook.admission.denial import Denial, Reason
from webhook.admission.environment import hide_gpus, limit_env
from webhook.admission.gpu_resources import replace_amounts
from webhook.admission.images import choose_image
from webhook.admission.json_patch import Operation, add, append
from webhook.admission.limiter import Volumes
from webhook.admission.share import Share, share_of
from webhook.admission.sizes import bounded
from webhook.admission.validate import Plan


class Injection(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What a labelled pod gets."""

    patch: bytes
    """JSON text of the JSON Patch; empty when nothing is missing."""
    container: str
    slices: int
    placement: Placement
    memory_mib: int | None
    """MiB of the share on each of its GPUs; None for whole GPUs, which have no limit."""
    index: str | None
    """Indices of its GPUs as the annotation has them; None where the kubelet chooses them."""


def inject(plan: Plan, placement: Placement) -> Injection | Denial:
    """Write the patch for a plan and a placement. Deterministic, without effects.

    Parents come before children, and what we insert at the front of a list comes last, so that each
    path holds when it is applied.
    """
    share = share_of(plan, placement)
    mib = share.memory_mib
    if mib is not None and mib <= 0:
        return _no_memory(plan, placement)
    images = choose_image(plan.containers.chosen, plan.limiter, mib, placement.gpu_mib)
    if isinstance(images, Denial):
        return images
    chosen = plan.containers.chosen.container.name
    operations = [
        *write_annotations(plan.metadata, _annotations(share, chosen, placement.reservation)),
        *images,
        *_gpu_containers(plan, share),
        *_others(plan),
        *_pod(plan),
        *bind_node(plan.spec, placement.memory_values, placement.node, placement.model),
        *_limiter_volumes(plan),
    ]
    patch = bounded(operations)
    if isinstance(patch, Denial):
        return patch
    return Injection(patch, chosen, plan.fraction.slices, placement, mib, share.annotations.get(GPU_INDEX))


def _annotations(share: Share, container: str, reservation: str | None) -> dict[str, str]:
    values = {**share.annotations, GPU_CONTAINER: container}
    if reservation is not None:
        values[RESERVATION] = reservation
    return values


def _gpu_containers(plan: Plan, share: Share) -> list[Operation]:
    operations: list[Operation] = []
    for slot in plan.containers.gpu:
        operations += replace_amounts(slot, share.amounts, plan.mode)
        operations += limit_env(slot, share.env.of(slot.container.name), plan.limiter.preload)
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
    if not policy.tolerations:
        return operations
    # The API server leaves empty texts out.
    present = {(t.key, t.operator, t.value or None, t.effect) for t in spec.tolerations or ()}
    missing = [
        dict(toleration)
        for toleration in policy.tolerations
        if tuple(toleration.get(name) or None for name in ("key", "operator", "value", "effect"))
        not in present
    ]
    return [*operations, *append("/spec/tolerations", spec.tolerations, missing)]


def _limiter_volumes(plan: Plan) -> list[Operation]:
    if plan.limiter.library is None and plan.limiter.cache is None:
        return []
    gpu = plan.containers.gpu
    volumes = Volumes(plan.spec, plan.every, gpu, plan.limiter, plan.written)
    mounts = [operation for slot in gpu for operation in volumes.mount(slot)]
    init = volumes.add_init_container(plan.containers.chosen.container)
    return [*mounts, *volumes.add(), *init]


def _no_memory(plan: Plan, placement: Placement) -> Denial:
    share = plan.fraction.share_mib(placement.gpu_mib)
    return Denial.of(
        Reason.MEMORY,
        f"the share is {share} MiB of a GPU of {placement.gpu_mib}, and policy {plan.policy.name} reserves"
        f" {plan.policy.reserve_mib} of it: use a larger fraction",
    )
