"""What no labelled pod may have: other GPU systems, ways around the share (docs/reference/admission.md)."""

from __future__ import annotations

from collections.abc import Sequence

from policies.model.allowances import CAPABILITIES, HOST_PATHS, OVERRIDE_ENV, Allowances
from policies.model.effective import EffectiveLimiter, EffectivePolicy
from webhook.admission.claims import refuse_claims
from webhook.admission.container_refs import ContainerRef
from webhook.admission.containers import Containers
from webhook.admission.denial import Denial, Reason
from webhook.admission.host_paths import SHARED_MEMORY, is_at_or_below, normalised, protected_place, touches
from webhook.admission.other_systems import OURS_INSTEAD
from webhook.admission.pod import LABEL, ObjectMeta, PodSpec

DEVICE_ANNOTATIONS = frozenset(
    {
        "cdi.k8s.io",
        "nvidia.cdi.k8s.io",
        "cdi.nri.io",
        "devices.nri.io",
        "cdi-devices.nri.io",
        "mounts.nri.io",
        "devices.noderesource.dev",
        "cdi-devices.noderesource.dev",
        "mounts.noderesource.dev",
        "devices.gke.io",
        "devices.crio.io",
        "io.kubernetes.cri-o.Devices",
    }
)
"""Annotations by which runtimes, NVIDIA's toolkit and NRI plugins give devices, or mounts that select them.
They read the bare name, and the name with /pod, /container.<name> or another suffix."""

DEVICE_LIST_MOUNT = "/run/nvidia-container-devices"
"""With the volume-mounts strategy, the container toolkit reads device ids from mounts below this path."""


def refuse_pod(
    metadata: ObjectMeta,
    spec: PodSpec,
    every: Sequence[ContainerRef],
    limiter: EffectiveLimiter,
    policy: EffectivePolicy,
) -> Denial | None:
    """Refuse what would break the share wherever it stands in the pod."""
    return (
        _refuse_annotations(metadata)
        or _refuse_resources(every)
        or refuse_claims(spec, policy.allow)
        or _refuse_host_pid(spec, limiter)
        or _refuse_host_ipc(spec, policy.allow)
        or _refuse_host_paths(spec, policy)
        or _refuse_device_lists(every)
    )


def refuse_privileged(containers: Containers, policy: EffectivePolicy) -> Denial | None:
    """Refuse GPU containers, or where the policy says so any, that can make their own way to devices."""
    checked = containers.gpu
    if policy.refuse_privileged == "any-container":
        checked = [*checked, *containers.others]
    for ref in checked:
        context = ref.container.security_context
        if context is not None and context.privileged:
            return Denial.of(
                Reason.PRIVILEGED,
                f'container "{ref.container.name}" is privileged and would see every GPU of the node:'
                f" drop securityContext.privileged or the label {LABEL}",
            )
        denial = _refuse_capabilities(ref, policy.allow)
        if denial is not None:
            return denial
    return None


def refuse_override_env(
    gpu_containers: Sequence[ContainerRef], limiter: EffectiveLimiter, allow: Allowances
) -> Denial | None:
    """Refuse mounts over the file from which a preloaded limiter takes other settings than ours."""
    if not limiter.is_preloaded or allow.override_env:
        return None
    for ref in gpu_containers:
        for path, normal in ref.paths:
            if touches(normal, OVERRIDE_ENV):
                return Denial.of(
                    Reason.MOUNT_PATH,
                    f'container "{ref.container.name}" mounts {path}, and so {OVERRIDE_ENV}, where the GPU'
                    " memory limiter looks for settings: use another path",
                )
    return None


def refuse_index(containers: Containers) -> Denial | None:
    """Refuse resource names that pick a particular GPU: the index is chosen here."""
    for ref in (*containers.gpu, *containers.others):
        for resource, _, kind in ref.gpu_amounts:
            if kind.is_index:
                return Denial.of(
                    Reason.GPU_INDEX_SET,
                    f'container "{ref.container.name}" asks for {resource}: leave it out,'
                    f" the GPU of a pod labelled {LABEL} is chosen for it",
                )
    return None


def _refuse_annotations(metadata: ObjectMeta) -> Denial | None:
    for name in metadata.annotations or ():
        denial = refuse_annotation(name)
        if denial is not None:
            return denial
    return None


def refuse_annotation(name: str) -> Denial | None:
    """Refuse an annotation of another GPU system, or one that injects devices."""
    if name in OURS_INSTEAD:
        ours = OURS_INSTEAD[name]
        advice = f"write {ours} instead" if ours is not None else None
        return _other_system(f"annotation {name}", advice)
    if name.partition("/")[0] in DEVICE_ANNOTATIONS:
        return Denial.of(
            Reason.CDI_ANNOTATION,
            f"annotation {name} injects devices past the share: remove it or the label {LABEL}",
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
        f"{resource} cannot stand beside {LABEL}: it may be a GPU; remove one of the two,"
        " or let the admin name it in the policy's allow.resources",
    )


def _other_system(what: str, advice: str | None = None) -> Denial:
    advice = advice or "one pod, one way to share a GPU; remove one of the two"
    return Denial.of(Reason.OTHER_GPU_SYSTEM, f"{what} cannot stand beside {LABEL}: {advice}")


def _refuse_host_pid(spec: PodSpec, limiter: EffectiveLimiter) -> Denial | None:
    if not spec.host_pid or limiter.host_pid:
        return None
    return Denial.of(
        Reason.HOST_PID,
        f"hostPID lets a pod reach its neighbours' processes on the GPU: remove it or the label {LABEL}",
    )


def _refuse_host_ipc(spec: PodSpec, allow: Allowances) -> Denial | None:
    if not spec.host_ipc or allow.host_ipc:
        return None
    return Denial.of(
        Reason.HOST_IPC,
        "hostIPC shares memory with every process of the node: use an emptyDir with medium: Memory at"
        " /dev/shm, or let the admin write allow.hostIPC",
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
            why = "is memory of the whole node: use an emptyDir with medium: Memory"
        else:
            why = f"reaches {place}, and with it past the share: remove the volume"
            why += ", or let the admin write it in allow.hostPaths" if place in HOST_PATHS else ""
        return Denial.of(Reason.HOST_PATH, f'volume "{volume.name}": hostPath {path} {why}')
    return None


def refused_capability(name: str) -> str | None:
    """Return a capability, written in whatever way, as a policy names it; None where none has to allow it."""
    plain = name.upper().removeprefix("CAP_")
    return plain if plain in CAPABILITIES else None


def _refuse_capabilities(ref: ContainerRef, allow: Allowances) -> Denial | None:
    context = ref.container.security_context
    added = context.capabilities.add if context is not None and context.capabilities is not None else None
    for name in added or ():
        if refused_capability(name) not in (None, *allow.capabilities):
            return Denial.of(
                Reason.CAPABILITY,
                f'container "{ref.container.name}" adds capability {name}, a way to every GPU of the node:'
                f" drop it or the label {LABEL}",
            )
    return None


def _refuse_device_lists(every: Sequence[ContainerRef]) -> Denial | None:
    for ref in every:
        for path, normal in ref.paths:
            if normal.startswith(DEVICE_LIST_MOUNT) and is_at_or_below(normal, DEVICE_LIST_MOUNT):
                return Denial.of(
                    Reason.MOUNT_PATH,
                    f'container "{ref.container.name}" mounts {path}, which selects GPUs'
                    " past the share: remove the mount",
                )
    return None
