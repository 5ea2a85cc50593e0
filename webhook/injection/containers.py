"""Which container gets the share: picked by name and by what it asks for, never by position."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from policies.effective import EffectivePolicy
from webhook.injection.gpu_resources import asks_for_gpu
from webhook.injection.modes import Mode
from webhook.pod import ObjectMeta, PodSpec, Slot, slots
from webhook.reasons import Denial, Reason

CONTAINER_ANNOTATION = "clearml-injector/container"


@dataclass(frozen=True, slots=True)
class Containers:
    """The containers of a pod, told apart."""

    chosen: Slot
    gpu: tuple[Slot, ...]
    """The chosen container and every init container that asks for a GPU."""
    others: tuple[Slot, ...]


def choose_containers(
    metadata: ObjectMeta, spec: PodSpec, policy: EffectivePolicy, mode: Mode
) -> Containers | Denial:
    """Choose the GPU containers (design: step "container" and step "others" of the admission table)."""
    every = list(slots(spec))
    asking = [slot for slot in every if asks_for_gpu(slot.container, mode)]
    chosen = _choose(metadata, [slot for slot in every if not slot.is_init], asking, policy)
    if isinstance(chosen, Denial):
        return chosen
    rival = next((slot for slot in asking if slot != chosen and _runs_beside(slot)), None)
    if rival is not None:
        return _several(chosen, rival)
    gpu = tuple(slot for slot in every if slot == chosen or (slot.is_init and slot in asking))
    return Containers(chosen, gpu, tuple(slot for slot in every if slot not in gpu))


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


def _runs_beside(slot: Slot) -> bool:
    return not slot.is_init or slot.container.is_native_sidecar


def _several(first: Slot, second: Slot) -> Denial:
    return Denial.of(
        Reason.SEVERAL_GPU_CONTAINERS,
        f'containers "{first.container.name}" and "{second.container.name}" both ask for a GPU:'
        " only one container of a labelled pod may",
    )


def _names(regular: list[Slot]) -> str:
    return ", ".join(slot.container.name for slot in regular) or "the pod has no containers"
