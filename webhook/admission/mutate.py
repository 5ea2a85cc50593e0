"""Returns the patch that gives a validated pod the share of a placement."""

from __future__ import annotations

import msgspec

from kube.names import GPU_FRACTIONS, QUEUE_ID_LABEL
from ledger.placement_request import Placement
from modes.claim import ClaimedShare
from modes.gpu_kinds import EVERY_KIND
from policies.model.effective import NO_LIMITER
from webhook.admission.affinity import bind_node
from webhook.admission.annotations import GPU_INDEX, write_annotations
from webhook.admission.denial import Denial, Reason
from webhook.admission.environment import clear_env, limit_env
from webhook.admission.gpu_resources import replace_amounts
from webhook.admission.images import image_denial
from webhook.admission.json_patch import Operation, add, append
from webhook.admission.limiter import Volumes
from webhook.admission.quota_gate import close_gate
from webhook.admission.share import PodShare, share_of
from webhook.admission.share_claim import claim_of, write_claim
from webhook.admission.sizes import bounded
from webhook.admission.validated import Validated


class Injection(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The result for a labelled pod."""

    patch: bytes
    """JSON text of the JSON Patch; empty if nothing is missing."""
    container: str
    """Names of the GPU containers, joined by commas."""
    slices: int
    placement: Placement
    memory_mib: int | None
    """MiB of the share on each of its GPUs; None for whole GPUs, and with limits by the node's agent."""
    index: str | None
    """Indices of its GPUs, as in the annotation; None if the kubelet chooses them."""
    alias: str | None = None
    """Description of the translation, for a pod in another system's syntax."""
    claim: ClaimedShare | None = None
    """What its claim asks for; None in modes without claims."""


def mutate(validated: Validated, placement: Placement) -> Injection | Denial:
    """Return the patch of a validated pod for a placement, or a denial if the share is too small. Pure.

    Parents come before children, and insertions at the front of a list come last, so that each path is valid
    when it is applied.
    """
    placed = as_placed(validated, placement)
    if placed is None:
        return _no_memory(validated, placement)
    validated = placed
    share = share_of(validated, placement)
    smallest = share.smallest_mib
    if smallest is not None and smallest <= 0:
        return _no_memory(validated, placement)
    denial = _image_denial(validated, share, placement.gpu_mib)
    if denial is not None:
        return denial
    refusing = validated.mode.refusing_nodes(validated.fraction)
    # A claim states its kinds itself.
    kinds = EVERY_KIND if validated.mode.is_claimed else validated.kinds
    operations = [
        *write_annotations(validated.metadata, share.annotations),
        *_gpu_containers(validated, share, placement.gpu_mib),
        *_others(validated),
        *_pod(validated),
        *bind_node(validated.spec, placement, kinds, refusing),
        *write_claim(validated, placement),
        *close_gate(validated.spec, placement),
        *_limiter_volumes(validated),
    ]
    patch = bounded(operations)
    if isinstance(patch, Denial):
        return patch
    mib = share.memory_mib if placement.instance is None else placement.instance.mib
    index = share.annotations.get(GPU_INDEX)
    claim = claim_of(validated, placement)
    names = validated.containers.names
    return Injection(patch, names, validated.fraction.slices, placement, mib, index, claim=claim)


def as_placed(validated: Validated, placement: Placement) -> Validated | None:
    """Return a pod with its actual share on the GPUs of a placement; None if these are too small."""
    instance = placement.instance
    if instance is None and validated.mode.is_claimed:
        return validated
    asked = validated.fraction.apart() if placement.containers else validated.fraction
    fraction = asked.on_card(placement.gpu_mib) if instance is None else instance.share
    if fraction is None:
        return None
    if fraction is not validated.fraction:
        validated = msgspec.structs.replace(validated, fraction=fraction)
    if instance is None or validated.policy.instance_mode is None:
        return validated
    mode = validated.policy.instance_mode
    return msgspec.structs.replace(validated, mode=mode, limiter=NO_LIMITER)


def _image_denial(validated: Validated, share: PodShare, gpu_mib: int) -> Denial | None:
    containers = validated.containers
    refs = [part.ref for part in containers.parts] or [containers.chosen]
    found = (image_denial(ref, validated.limiter, share.of(ref).memory_mib, gpu_mib) for ref in refs)
    return next(filter(None, found), None)


def _gpu_containers(validated: Validated, share: PodShare, gpu_mib: int) -> list[Operation]:
    operations, mode = list[Operation](), validated.mode
    reported = {}
    if gpu_mib and validated.fraction.is_of_memory and QUEUE_ID_LABEL in (validated.metadata.labels or ()):
        reported = {GPU_FRACTIONS: f"{validated.fraction.mib / gpu_mib:.3f}"}
    for ref in validated.containers.gpu:
        own = share.of(ref)
        operations += replace_amounts(ref, mode.amounts(own.fraction, own.indices))
        env = reported | own.env(validated, ref.container.name)
        operations += limit_env(ref, env, validated.limiter.preload)
    return operations


def _others(validated: Validated) -> list[Operation]:
    hides_gpus = validated.policy.hide_gpus_from_others
    others = validated.containers.others
    return [operation for ref in others for operation in clear_env(ref, hides_gpus=hides_gpus)]


def _pod(validated: Validated) -> list[Operation]:
    spec, policy = validated.spec, validated.policy
    operations: list[Operation] = []
    if validated.limiter.host_pid and not spec.host_pid:
        operations.append(add("/spec/hostPID", value=True))
    if policy.runtime_class_name is not None and spec.runtime_class_name is None:
        operations.append(add("/spec/runtimeClassName", policy.runtime_class_name))
    if not policy.tolerations:
        return operations
    # The API server omits empty strings.
    present = {(t.key, t.operator, t.value or None, t.effect) for t in spec.tolerations or ()}
    missing = [
        dict(toleration)
        for toleration in policy.tolerations
        if tuple(toleration.get(name) or None for name in ("key", "operator", "value", "effect"))
        not in present
    ]
    return [*operations, *append("/spec/tolerations", spec.tolerations, missing)]


def _limiter_volumes(validated: Validated) -> list[Operation]:
    if validated.limiter.library is None and validated.limiter.cache is None:
        return []
    gpu = validated.containers.gpu
    volumes = Volumes(validated.spec, validated.every, gpu, validated.limiter, validated.existing_injection)
    mounts = [operation for ref in gpu for operation in volumes.mount(ref)]
    init = volumes.add_init_container(validated.containers.chosen.container)
    return [*mounts, *volumes.add(), *init]


def _no_memory(validated: Validated, placement: Placement) -> Denial:
    share, policy = validated.fraction.share_mib(placement.gpu_mib), validated.policy
    return Denial.of(
        Reason.MEMORY,
        f"the share is {share} MiB of a GPU with {placement.gpu_mib} MiB, but policy {policy.name} reserves"
        f" {policy.reserve_mib} MiB of it: use a larger fraction",
    )
