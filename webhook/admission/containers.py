"""Which container gets the share: picked by name and by what it asks for, never by position."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from kube.names import CONTAINER_ANNOTATION
from policies.model.effective import EffectivePolicy
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import ObjectMeta


class Containers(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The containers of a pod, told apart."""

    chosen: ContainerRef
    gpu: list[ContainerRef]
    """The chosen container and every init container that asks for a GPU."""
    others: list[ContainerRef]


def choose_containers(
    metadata: ObjectMeta, every: list[ContainerRef], policy: EffectivePolicy
) -> Containers | Denial:
    """Choose the GPU containers (docs/admission.md)."""
    if len(every) == 1 and CONTAINER_ANNOTATION not in (metadata.annotations or ()):
        return Containers(every[0], every, [])
    asking = [ref for ref in every if ref.gpu_amounts and ref.asks_for_gpu]
    chosen = _choose(metadata, [ref for ref in every if not ref.is_init], asking, policy)
    if isinstance(chosen, Denial):
        return chosen
    for ref in asking:
        if ref is not chosen and ref.runs_beside:
            return _several(chosen, ref)
    gpu = {chosen.path, *(ref.path for ref in asking if ref.is_init)}
    return Containers(
        chosen, [ref for ref in every if ref.path in gpu], [ref for ref in every if ref.path not in gpu]
    )


def _choose(
    metadata: ObjectMeta, regular: list[ContainerRef], asking: list[ContainerRef], policy: EffectivePolicy
) -> ContainerRef | Denial:
    wanted = (metadata.annotations or {}).get(CONTAINER_ANNOTATION)
    if wanted is not None:
        return _named(wanted, regular)
    asking = [ref for ref in asking if not ref.is_init]
    if len(asking) > 1:
        return _several(asking[0], asking[1])
    candidates = asking or regular
    if len(candidates) > 1:
        candidates = [ref for ref in regular if _is_task(ref, metadata, policy)]
    if len(candidates) == 1:
        return candidates[0]
    return Denial.of(
        Reason.CONTAINER_AMBIGUOUS,
        f"no single container can be chosen for the GPU: name it in the annotation {CONTAINER_ANNOTATION}"
        f" ({_names(regular)})",
    )


def _named(wanted: str, regular: list[ContainerRef]) -> ContainerRef | Denial:
    for ref in regular:
        if ref.container.name == wanted:
            return ref
    return Denial.of(
        Reason.CONTAINER_UNKNOWN,
        f'annotation {CONTAINER_ANNOTATION}: "{wanted}" is no container of this pod: use {_names(regular)}',
    )


def _is_task(ref: ContainerRef, metadata: ObjectMeta, policy: EffectivePolicy) -> bool:
    name = ref.container.name
    return name == metadata.name or any(fnmatchcase(name, pattern) for pattern in policy.container_names)


def _several(first: ContainerRef, second: ContainerRef) -> Denial:
    return Denial.of(
        Reason.SEVERAL_GPU_CONTAINERS,
        f'containers "{first.container.name}" and "{second.container.name}" both ask for a GPU:'
        " leave it to one of them",
    )


def _names(regular: list[ContainerRef]) -> str:
    return ", ".join(ref.container.name for ref in regular) or "the pod has no containers"
