"""Refuses other GPU systems and means to bypass the share in labelled pods (docs/reference/admission.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kube.device_keys import DEVICE_LIST_MOUNT, injecting
from kube.names import CONTAINER_ANNOTATION, GPU_MODEL_ANNOTATION, GPUS_ANNOTATION
from policies.model.allowances import CAPABILITIES, HOST_PATHS, OVERRIDE_ENV, Allowances
from policies.model.effective import EffectiveLimiter, EffectivePolicy
from webhook.admission.alias_of_hami import HAMI_ANNOTATIONS, HAMI_USE_TYPE
from webhook.admission.alias_of_kai import KAI_AMOUNTS, KAI_CONTAINER, KAI_GPUS, further_of_kai
from webhook.admission.claims import refuse_claims
from webhook.admission.container_refs import ContainerRef
from webhook.admission.containers import Containers
from webhook.admission.denial import Denial, Reason
from webhook.admission.host_paths import SHARED_MEMORY, is_at_or_below, normalised, protected_place, touches
from webhook.admission.pod import LABEL, ObjectMeta, PodSpec

OURS_INSTEAD: Mapping[str, str | None] = {
    **dict.fromkeys((*KAI_AMOUNTS, *HAMI_ANNOTATIONS)),
    KAI_GPUS: GPUS_ANNOTATION,
    KAI_CONTAINER: CONTAINER_ANNOTATION,
    HAMI_USE_TYPE: GPU_MODEL_ANNOTATION,
}
"""Annotations of other systems, and our equivalent of each; None if there is none."""


def refuse_pod(
    metadata: ObjectMeta,
    spec: PodSpec,
    every: Sequence[ContainerRef],
    limiter: EffectiveLimiter,
    policy: EffectivePolicy,
) -> Denial | None:
    """Refuse fields that would bypass the share, in any part of the pod."""
    return (
        _refuse_annotations(metadata)
        or _refuse_resources(every)
        or refuse_claims(spec, policy.allow, has_own=policy.mode.is_claimed)
        or _refuse_host_pid(spec, limiter)
        or _refuse_host_ipc(spec, policy.allow)
        or _refuse_host_paths(spec, policy)
        or _refuse_device_lists(every)
    )


def refuse_privileged(containers: Containers, policy: EffectivePolicy) -> Denial | None:
    """Refuse GPU containers, or all containers if the policy says so, that can access devices directly."""
    checked = containers.gpu
    if policy.refuse_privileged == "any-container":
        checked = [*checked, *containers.others]
    for ref in checked:
        context = ref.container.security_context
        if context is not None and context.privileged:
            return Denial.of(
                Reason.PRIVILEGED,
                f'container "{ref.container.name}" is privileged and would see every GPU of the node:'
                f" remove securityContext.privileged or the label {LABEL}",
            )
        denial = _refuse_capabilities(ref, policy.allow)
        if denial is not None:
            return denial
    return None


def refuse_override_env(
    gpu_containers: Sequence[ContainerRef], limiter: EffectiveLimiter, allow: Allowances
) -> Denial | None:
    """Refuse mounts over the file from which a preloaded limiter reads settings."""
    if not limiter.is_preloaded or allow.override_env:
        return None
    rule = f"; {OVERRIDE_ENV} is reserved for settings of the GPU memory limiter: use another path"
    return _refuse_mounts(gpu_containers, lambda normal: touches(normal, OVERRIDE_ENV), rule)


def refuse_index(containers: Containers) -> Denial | None:
    """Refuse resource names of a particular GPU: the injector chooses the index."""
    for ref in (*containers.gpu, *containers.others):
        for resource, _, kind in ref.gpu_amounts:
            if kind.is_index:
                return Denial.of(
                    Reason.GPU_INDEX_SET,
                    f'container "{ref.container.name}" requests {resource}: remove it,'
                    f" the injector chooses the GPU of a pod with the label {LABEL}",
                )
    return None


def _refuse_annotations(metadata: ObjectMeta) -> Denial | None:
    annotations = metadata.annotations or {}
    of_kai = [name for name in further_of_kai(annotations) if ".gpus." not in name or not injecting([name])]
    for name in (*sorted(annotations.keys() & OURS_INSTEAD.keys()), *of_kai):
        ours = OURS_INSTEAD.get(name)
        advice = f"use {ours} instead" if ours is not None else None
        return _other_system(f"annotation {name}", advice)
    for name in sorted(injecting(annotations)):
        return Denial.of(
            Reason.CDI_ANNOTATION,
            f"annotation {name} injects devices in addition to the share: remove it or the label {LABEL}",
        )
    return None


def _refuse_resources(every: Sequence[ContainerRef]) -> Denial | None:
    for ref in every:
        for resource, _, kind in ref.gpu_amounts:
            if kind.is_other_system:
                return _unknown_resource(resource) if kind.can_be_allowed else _other_system(resource)
    return None


def _unknown_resource(resource: str) -> Denial:
    return Denial.of(
        Reason.OTHER_GPU_SYSTEM,
        f"{resource} may be a GPU and cannot be combined with {LABEL}: remove one of the two,"
        " or ask the admin to list it in the policy's allow.resources",
    )


def _other_system(what: str, advice: str | None = None) -> Denial:
    advice = advice or "remove one of the two"
    return Denial.of(
        Reason.OTHER_GPU_SYSTEM,
        f"{what} is another way to share GPUs and cannot be combined with {LABEL}: {advice}",
    )


def _refuse_host_pid(spec: PodSpec, limiter: EffectiveLimiter) -> Denial | None:
    if not spec.host_pid or limiter.host_pid:
        return None
    return Denial.of(
        Reason.HOST_PID,
        f"hostPID gives access to other pods' processes on the GPU: remove it or the label {LABEL}",
    )


def _refuse_host_ipc(spec: PodSpec, allow: Allowances) -> Denial | None:
    if not spec.host_ipc or allow.host_ipc:
        return None
    return Denial.of(
        Reason.HOST_IPC,
        "hostIPC shares memory with every process of the node: use an emptyDir with medium: Memory at"
        " /dev/shm, or ask the admin to set allow.hostIPC",
    )


def _refuse_host_paths(spec: PodSpec, policy: EffectivePolicy) -> Denial | None:
    for volume in spec.volumes or ():
        if volume.host_path is None:
            continue
        path = volume.host_path.path
        place = protected_place(path, policy.allow.host_paths, policy.protected_host_paths)
        if place is None:
            continue
        if is_at_or_below(normalised(path), SHARED_MEMORY):
            why = "is shared memory of the node: use an emptyDir with medium: Memory"
        else:
            why = f"exposes {place} and bypasses the share: remove the volume"
            why += ", or ask the admin to set allow.hostPaths" if place in HOST_PATHS else ""
        return Denial.of(Reason.HOST_PATH, f'volume "{volume.name}": hostPath {path} {why}')
    return None


def _refuse_capabilities(ref: ContainerRef, allow: Allowances) -> Denial | None:
    context = ref.container.security_context
    added = context.capabilities.add if context is not None and context.capabilities is not None else None
    for name in dict.fromkeys(added or ()):
        plain = name.upper().removeprefix("CAP_")
        if plain in CAPABILITIES and plain not in allow.capabilities:
            return Denial.of(
                Reason.CAPABILITY,
                f'container "{ref.container.name}" adds {name}, which gives access to every GPU of the node:'
                f" remove it or the label {LABEL}",
            )
    return None


def _refuse_device_lists(every: Sequence[ContainerRef]) -> Denial | None:
    rule = ", which selects GPUs in addition to the share: remove the mount"
    return _refuse_mounts(every, lambda normal: normal.startswith(DEVICE_LIST_MOUNT), rule)


def _refuse_mounts(
    containers: Sequence[ContainerRef], is_refused: Callable[[str], bool], rule: str
) -> Denial | None:
    for ref in containers:
        for path, normal in ref.paths:
            if is_refused(normal):
                return Denial.of(Reason.MOUNT_PATH, f'container "{ref.container.name}" mounts {path}{rule}')
    return None
