"""Where the pods of each owner are, to spread replicas or keep them on GPUs of one model.

All of it comes from pods and reservations, so a ledger that is built from a list knows the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

from kube.names import label_number
from kube.objects import OwnerReference
from ledger.accounts import Claim, add_to
from ledger.placement_request import MAX_OWNER

GpuModel = tuple[str | None, int | None]
"""Values of the node labels nvidia.com/gpu.product and nvidia.com/gpu.memory; None if one is missing."""
Place = TypeVar("Place", str, GpuModel)


def owner_key(
    namespace: str,
    references: Iterable[OwnerReference] | None,
    generate_name: str | None,
    queues: Sequence[str],
) -> str:
    """Return a digest of the owner that a pod is a replica of; empty for a pod without one.

    The owner is the pod's controller (a ReplicaSet, StatefulSet, Job), else its `generateName`, else its
    ClearML queue. Pods of two namespaces never share an owner. The pod has these fields before and after
    admission; they can have any length.
    """
    controller = next((owner.uid for owner in references or () if owner.controller and owner.uid), None)
    if controller is not None:
        text = f"{namespace}\0uid\0{controller}"
    elif generate_name:
        text = f"{namespace}\0name\0{generate_name}"
    elif queues:
        text = f"{namespace}\0queue\0{queues[0]}"
    else:
        return ""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=MAX_OWNER // 2).hexdigest()


class Owners:
    """Counts each owner's shares of GPUs by node, and the GPU models that its pending pods wait for."""

    def __init__(self) -> None:
        self._on_nodes: dict[str, dict[str, int]] = {}
        self._awaited: dict[str, dict[GpuModel, int]] = {}

    def add(self, claim: Claim) -> None:
        """Add a claim that has an owner; the inverse of `remove`. One that takes nothing does not count."""
        self._count(claim, 1)

    def remove(self, claim: Claim) -> None:
        """Remove a claim that has an owner; the inverse of `add`."""
        self._count(claim, -1)

    def on_nodes(self, owner: str) -> Mapping[str, int]:
        """Return the number of an owner's shares of GPUs, by name of the node."""
        return self._on_nodes.get(owner, {})

    def awaited(self, owner: str) -> GpuModel | None:
        """Return the model that an owner's pending pods require; None if they require none."""
        return min(self._awaited.get(owner, ()), key=repr, default=None)

    def _count(self, claim: Claim, sign: int) -> None:
        if not claim.takes:
            return
        node, by = claim.node or claim.promised_node, sign * len(claim.takes)
        if node is not None:
            _add(self._on_nodes, claim.owner, node, by)
        elif (model := _bound_to(claim)) is not None:
            _add(self._awaited, claim.owner, model, by)


def _bound_to(claim: Claim) -> GpuModel | None:
    """Return the model that a pending claim requires; None if it accepts several."""
    values = claim.memory_values or ()
    if len(values) > 1:
        return None
    # A user can write any value; it then matches no node's label.
    gpu_mib = label_number(values[0]) if values else None
    return (claim.model, gpu_mib) if claim.model or gpu_mib else None


def _add(counts: dict[str, dict[Place, int]], owner: str, place: Place, by: int) -> None:
    places = counts.setdefault(owner, {})
    add_to(places, place, by)
    if not places:
        del counts[owner]
