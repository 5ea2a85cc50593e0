"""Which container gets the share: picked by name and by what it asks for, never by position."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from kube.names import CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION
from ledger.placement_request import Placement
from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from webhook.admission.container_parts import ContainerPart, container_parts, refuse_parts
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import ObjectMeta

_CHOOSING = frozenset({CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION})


class Containers(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The containers of a pod, told apart."""

    chosen: ContainerRef
    """Of several the first that the annotation names."""
    gpu: list[ContainerRef]
    """The chosen container and every init container that asks for a GPU."""
    others: list[ContainerRef]
    parts: list[ContainerPart] = []
    """Where several regular containers share the GPU: what each gets, in the annotation's order."""

    @property
    def names(self) -> str:
        """Of the regular GPU containers, joined by commas."""
        return ",".join([part.ref.container.name for part in self.parts]) or self.chosen.container.name

    def place_of(self, ref: ContainerRef) -> int | None:
        """Return the place in `parts` of what a container gets; None where it gets all of the pod's share."""
        return next((at for at, part in enumerate(self.parts) if part.ref is ref), None)

    def share_of(
        self, ref: ContainerRef, whole: Fraction, placement: Placement
    ) -> tuple[Fraction, tuple[int, ...]]:
        """Return a GPU container's share, and its GPUs, in a pod that asks for `whole`.

        An init container gets all of it, and the first part where the parts are on different GPUs.
        """
        at = self.place_of(ref)
        if at is None and placement.containers:
            at = 0
        if at is None:
            return whole, placement.indices
        return whole.part(at), placement.containers[at : at + 1] or placement.indices


def choose_containers(
    metadata: ObjectMeta, every: list[ContainerRef], policy: EffectivePolicy, fraction: Fraction
) -> Containers | Denial:
    """Choose the GPU containers (docs/admission.md)."""
    if len(every) == 1 and _CHOOSING.isdisjoint(metadata.annotations or ()):
        return Containers(every[0], every, [])
    regular = [ref for ref in every if not ref.is_init]
    asking = [ref for ref in every if ref.gpu_amounts and ref.asks_for_gpu]
    parts = container_parts(metadata, regular, fraction, policy.reserve_mib)
    if isinstance(parts, Denial):
        return parts
    if parts and policy.mode.several_containers_problem is not None:
        return refuse_parts(policy.mode.several_containers_problem)
    chosen = parts[0].ref if parts else _choose(metadata, regular, asking, policy)
    if isinstance(chosen, Denial):
        return chosen
    sharing = {chosen.path, *(part.ref.path for part in parts)}
    for ref in asking:
        if ref.path not in sharing and ref.runs_beside:
            return _several(chosen, ref)
    gpu = sharing | {ref.path for ref in asking if ref.is_init}
    others = [ref for ref in every if ref.path not in gpu]
    return Containers(chosen, [ref for ref in every if ref.path in gpu], others, parts)


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
    # A sidecar is no container to share with.
    share = "" if second.is_init else f", or say in {CONTAINERS_ANNOTATION} how they share it"
    if not (first.gpu_amounts and first.asks_for_gpu):
        return Denial.of(Reason.SEVERAL_GPU_CONTAINERS, f"{_only_one_asks(first, second)}{share}")
    return Denial.of(
        Reason.SEVERAL_GPU_CONTAINERS,
        f'containers "{first.container.name}" and "{second.container.name}" both ask for a GPU:'
        f" leave it to one of them{share}",
    )


def _only_one_asks(chosen: ContainerRef, other: ContainerRef) -> str:
    role, name = "sidecar" if other.is_init else "container", other.container.name
    resource = next(
        resource for resource, amount, kind in other.gpu_amounts if kind.asks and amount not in {"0", 0}
    )
    gets = f'{role} "{name}" asks for {resource}, but the share is for container "{chosen.container.name}"'
    return f"{gets}: remove it from the {role}"


def _names(regular: list[ContainerRef]) -> str:
    return ", ".join(ref.container.name for ref in regular) or "the pod has no containers"
