"""Chooses one of several containers for the share, if no annotation divides it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from kube.dra import CLAIM_NAME
from kube.names import CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION, DEFAULT_CONTAINER_ANNOTATION
from policies.model.effective import EffectivePolicy
from policies.model.sidecars import is_sidecar
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import ObjectMeta

MAX_COMPARED = 32
"""Beyond this number of containers, none is compared with the known sidecars."""


def nameable(every: Sequence[ContainerRef]) -> list[ContainerRef]:
    """Return the containers that may get a share by name: regular ones, then native sidecars."""
    return sorted([ref for ref in every if ref.runs_concurrently], key=lambda ref: ref.is_init)


def choose(
    metadata: ObjectMeta, running: Sequence[ContainerRef], policy: EffectivePolicy
) -> ContainerRef | Denial:
    """Choose one of the containers that run at the same time (docs/reference/admission.md).

    A request for a GPU takes precedence over hints: in a second review the same container has the request,
    even if other webhooks have changed the pod.
    """
    wanted = (metadata.annotations or {}).get(CONTAINER_ANNOTATION)
    if wanted is not None:
        return _named(wanted, running)
    asking = [ref for ref in running if ref.asks_for_gpu]
    if len(asking) > 1:
        return both_ask(asking[0], asking[1])
    candidates = asking or [ref for ref in running if not ref.is_init]
    if len(candidates) == 1:
        return candidates[0]
    return _by_hints(metadata, candidates, policy)


def _by_hints(
    metadata: ObjectMeta, regular: list[ContainerRef], policy: EffectivePolicy
) -> ContainerRef | Denial:
    tasks = [
        ref
        for ref in regular
        if ref.container.name == metadata.name
        or any(fnmatchcase(ref.container.name, pattern) for pattern in policy.container_names)
    ]
    if len(tasks) == 1:
        return tasks[0]
    default = (metadata.annotations or {}).get(DEFAULT_CONTAINER_ANNOTATION)
    left = regular
    if len(regular) <= MAX_COMPARED:
        sidecars = policy.sidecars
        left = [ref for ref in regular if not is_sidecar(ref.container.name, ref.container.image, sidecars)]
    meant = [ref for ref in regular if ref.container.name == default] or left
    if len(meant) == 1:
        return meant[0]
    return Denial.of(
        Reason.CONTAINER_AMBIGUOUS,
        f"several containers could get the GPU: name one in the annotation {CONTAINER_ANNOTATION}"
        f" ({_names(left or regular)})",
    )


def _named(wanted: str, running: Sequence[ContainerRef]) -> ContainerRef | Denial:
    for ref in running:
        if ref.container.name == wanted:
            return ref
    return Denial.of(
        Reason.CONTAINER_UNKNOWN,
        f'annotation {CONTAINER_ANNOTATION}: the pod has no container "{wanted}": use {_names(running)}',
    )


def both_ask(first: ContainerRef, second: ContainerRef) -> Denial:
    """Deny a second container that requests a GPU; only containers that run at the same time can share."""
    share = f", or divide the share in {CONTAINERS_ANNOTATION}" if second.runs_concurrently else ""
    if not first.asks_for_gpu:
        return Denial.of(Reason.SEVERAL_GPU_CONTAINERS, f"{_only_one_asks(first, second)}{share}")
    return Denial.of(
        Reason.SEVERAL_GPU_CONTAINERS,
        f'containers "{first.container.name}" and "{second.container.name}" both request a GPU:'
        f" remove one of the requests{share}",
    )


def _only_one_asks(chosen: ContainerRef, other: ContainerRef) -> str:
    role, name = "sidecar" if other.is_init else "container", other.container.name
    asked = [resource for resource, amount, kind in other.gpu_amounts if kind.asks and amount not in {"0", 0}]
    resource = asked[0] if asked else f"claim {CLAIM_NAME}"
    gets = f'{role} "{name}" requests {resource}, but the share is for container "{chosen.container.name}"'
    return f"{gets}: remove it from the {role}"


def _names(containers: Sequence[ContainerRef]) -> str:
    return ", ".join(ref.container.name for ref in containers) or "the pod has no containers"
