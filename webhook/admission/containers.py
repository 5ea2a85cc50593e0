"""Chooses the container that gets the share: by name and by requests, never by position."""

from __future__ import annotations

import msgspec

from kube.names import CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION
from ledger.placement_request import Placement
from modes.claim import request_name
from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from webhook.admission.container_choice import both_ask, choose, nameable
from webhook.admission.container_parts import ContainerPart, container_parts, refuse_parts
from webhook.admission.container_refs import ContainerRef
from webhook.admission.denial import Denial
from webhook.admission.pod import ObjectMeta

_CHOOSING = frozenset({CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION})


class Containers(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The containers of a pod: those that get the share, and the others."""

    chosen: ContainerRef
    """If several share the GPU, the first in the annotation."""
    gpu: list[ContainerRef]
    """The chosen container and every init container that requests a GPU."""
    others: list[ContainerRef]
    parts: list[ContainerPart] = []
    """Parts of the containers that share the GPU, in the annotation's order; empty if only one gets the
    share."""

    @property
    def names(self) -> str:
        """Names of the regular GPU containers, joined by commas."""
        return ",".join([part.ref.container.name for part in self.parts]) or self.chosen.container.name

    def place_of(self, ref: ContainerRef) -> int | None:
        """Return the position in `parts` of a container's part; None if it gets all of the pod's share."""
        return next((at for at, part in enumerate(self.parts) if part.ref is ref), None)

    def request_of(self, ref: ContainerRef) -> str:
        """Return the request of the pod's claim that a GPU container uses; init containers use the first."""
        return request_name((self.place_of(ref) or 0) if self.parts else None)

    def share_of(
        self, ref: ContainerRef, whole: Fraction, placement: Placement
    ) -> tuple[Fraction, tuple[int, ...]]:
        """Return a GPU container's share, and its GPUs, in a pod with the share `whole`.

        An init container gets all of it, or the first part if the parts are on different GPUs.
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
    """Choose the GPU containers (docs/reference/admission.md)."""
    if len(every) == 1 and _CHOOSING.isdisjoint(metadata.annotations or ()):
        return Containers(every[0], every, [])
    running = nameable(every)
    parts = container_parts(metadata, running, fraction, policy.reserve_mib)
    if isinstance(parts, Denial):
        return parts
    if parts and policy.mode.several_containers_problem is not None:
        return refuse_parts(f"is not allowed: {policy.mode.several_containers_problem}")
    chosen = parts[0].ref if parts else choose(metadata, running, policy)
    if isinstance(chosen, Denial):
        return chosen
    sharing = {chosen.path, *(part.ref.path for part in parts)}
    asking = [ref for ref in every if ref.asks_for_gpu]
    refused = _one_too_many(chosen, every, sharing, asking)
    if refused is not None:
        return refused
    gpu = sharing | {ref.path for ref in asking}
    others = [ref for ref in every if ref.path not in gpu]
    return Containers(chosen, [ref for ref in every if ref.path in gpu], others, parts)


def _one_too_many(
    chosen: ContainerRef, every: list[ContainerRef], sharing: set[str], asking: list[ContainerRef]
) -> Denial | None:
    """Refuse a container without a share that requests a GPU while one with a share runs.

    An init container runs at the same time as the native sidecars before it: Kubernetes adds their requests.
    """
    sidecar = next((at for at, ref in enumerate(every) if ref.is_init and ref.path in sharing), len(every))
    concurrent = {ref.path: every[sidecar] for ref in every[sidecar + 1 :] if not ref.runs_concurrently}
    for ref in asking:
        if ref.path not in sharing and (ref.runs_concurrently or ref.path in concurrent):
            return both_ask(concurrent.get(ref.path, chosen), ref)
    return None
