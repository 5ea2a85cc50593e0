"""Which container gets the share: picked by name and by what it asks for, never by position."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from kube.names import CONTAINER_ANNOTATION
from policies.model.effective import EffectivePolicy
from webhook.admission.container_refs import Slot
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import ObjectMeta


class Containers(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The containers of a pod, told apart."""

    chosen: Slot
    gpu: list[Slot]
    """The chosen container and every init container that asks for a GPU."""
    others: list[Slot]


def choose_containers(
    metadata: ObjectMeta, every: list[Slot], policy: EffectivePolicy
) -> Containers | Denial:
    """Choose the GPU containers (design: step "container" and step "others" of the admission table)."""
    if len(every) == 1 and CONTAINER_ANNOTATION not in (metadata.annotations or ()):
        return Containers(every[0], every, [])
    asking = [slot for slot in every if slot.gpu_amounts and slot.asks_for_gpu]
    chosen = _choose(metadata, [slot for slot in every if not slot.is_init], asking, policy)
    if isinstance(chosen, Denial):
        return chosen
    for slot in asking:
        if slot is not chosen and slot.runs_beside:
            return _several(chosen, slot)
    gpu = {chosen.path, *(slot.path for slot in asking if slot.is_init)}
    return Containers(
        chosen, [slot for slot in every if slot.path in gpu], [slot for slot in every if slot.path not in gpu]
    )


def _choose(
    metadata: ObjectMeta, regular: list[Slot], asking: list[Slot], policy: EffectivePolicy
) -> Slot | Denial:
    wanted = (metadata.annotations or {}).get(CONTAINER_ANNOTATION)
    if wanted is not None:
        return _named(wanted, regular)
    asking = [slot for slot in asking if not slot.is_init]
    if len(asking) > 1:
        return _several(asking[0], asking[1])
    candidates = asking or regular
    if len(candidates) > 1:
        candidates = [slot for slot in regular if _is_task(slot, metadata, policy)]
    if len(candidates) == 1:
        return candidates[0]
    return Denial.of(
        Reason.CONTAINER_AMBIGUOUS,
        f"no single container can be chosen for the GPU: name it in the annotation {CONTAINER_ANNOTATION}"
        f" ({_names(regular)})",
    )


def _named(wanted: str, regular: list[Slot]) -> Slot | Denial:
    for slot in regular:
        if slot.container.name == wanted:
            return slot
    return Denial.of(
        Reason.CONTAINER_UNKNOWN,
        f'annotation {CONTAINER_ANNOTATION}: "{wanted}" is no container of this pod: use {_names(regular)}',
    )


def _is_task(slot: Slot, metadata: ObjectMeta, policy: EffectivePolicy) -> bool:
    name = slot.container.name
    return name == metadata.name or any(fnmatchcase(name, pattern) for pattern in policy.container_names)


def _several(first: Slot, second: Slot) -> Denial:
    return Denial.of(
        Reason.SEVERAL_GPU_CONTAINERS,
        f'containers "{first.container.name}" and "{second.container.name}" both ask for a GPU:'
        " leave it to one of them",
    )


def _names(regular: list[Slot]) -> str:
    return ", ".join(slot.container.name for slot in regular) or "the pod has no containers"
