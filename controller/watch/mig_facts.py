"""The fields of nodes and pods that the geometry loop needs, extracted when they are decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from kube.names import (
    MIG_CHANGE_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_CONFIG_STATE_LABEL,
    MIG_DIVIDED_AT_ANNOTATION,
)
from kube.objects import Condition, Node, PodMetadata, PodSpec
from kube.quantity import whole
from kube.resource_requests import Container, effective_request
from kube.scheduling import Constraints, Toleration
from modes.mig_profiles import MIG_RESOURCE_PREFIX, is_divided_on_demand

MAX_PROFILES = 8
"""Profiles of a pod that are kept: more than a card has, but a pod may name thousands."""
MAX_CONSTRAINTS = 16 * 1024
"""Bytes of a pod's selectors and tolerations; cards are not divided for a pod with more."""


class MigPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that requests MIG instances."""

    uid: str
    created: str
    wants: tuple[tuple[str, int], ...]
    """Names of profiles, in the form of mig-parted, and numbers of instances."""
    waits: bool
    """Whether the scheduler has found no node for it."""
    constraints: Constraints | None
    """Constraints of a waiting pod; None if they are too long to compare."""
    digest: bytes = b""
    """Digest of its constraints, equal for pods with equal demands."""


class MigNodeFact(msgspec.Struct, frozen=True, gc=False):
    """A node whose cards are divided on demand, that we cordoned for it, or that has instances."""

    is_ours: bool
    """Whether it has the label for division on demand; otherwise we only remove our cordon."""
    config: str
    state: str
    change: str | None
    """Our annotation during a change."""
    amounts: tuple[tuple[str, int], ...]
    """Amounts of the MIG resources that it advertises, by name."""
    divided_at: str | None = None
    """When it was last divided, by our annotation."""


class MigPodSpec(PodSpec, rename="camel", gc=False):
    """`spec` of a pod, with the fields that restrict its nodes."""

    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None


def wanted_instances(spec: MigPodSpec) -> tuple[tuple[str, int], ...]:
    """Return the MIG instances that a pod requests, by profile."""
    containers, first = spec.containers or (), spec.init_containers or ()
    if not any(map(_asks, (*containers, *first))):
        return ()
    request = effective_request(containers, first, counts=_is_mig, is_stored=True)
    wants = sorted((_profile(name), amount) for name, amount in request.extended.items() if amount)
    return tuple(wants[:MAX_PROFILES])


def mig_pod(metadata: PodMetadata, spec: MigPodSpec, conditions: Sequence[Condition]) -> MigPod | None:
    """Return a pod's request for MIG instances; None without one.

    It waits if the scheduler found no node for it, and nobody has deleted it.
    """
    if not (wants := wanted_instances(spec)):
        return None
    may_wait = metadata.deletion_timestamp is None and spec.node_name is None
    waits = may_wait and any(map(is_unschedulable, conditions))
    constraints = _constraints(spec) if waits else None
    created = metadata.creation_timestamp or ""
    return MigPod(metadata.uid, created, wants, waits, constraints, _digest(constraints))


def is_unschedulable(condition: Condition) -> bool:
    """Whether the scheduler says that it found no node."""
    found = condition.type, condition.status, condition.reason
    return found == ("PodScheduled", "False", "Unschedulable")


def mig_node(node: Node) -> MigNodeFact | None:
    """Return the state of a node's division; None if it has no instances and is not divided on demand.

    Raises:
        ValueError: an amount cannot be read.
    """
    labels = node.metadata.labels or {}
    annotations = node.metadata.annotations or {}
    change = annotations.get(MIG_CHANGE_ANNOTATION)
    is_ours = is_divided_on_demand(labels)
    allocatable = (node.status and node.status.allocatable) or {}
    found = ((name, whole(amount)) for name, amount in allocatable.items() if _is_mig(name))
    amounts = tuple(sorted((name, amount) for name, amount in found if amount))
    if not is_ours and change is None and not amounts:
        return None
    return MigNodeFact(
        is_ours=is_ours,
        config=labels.get(MIG_CONFIG_LABEL, ""),
        state=labels.get(MIG_CONFIG_STATE_LABEL, ""),
        change=change,
        amounts=amounts,
        divided_at=annotations.get(MIG_DIVIDED_AT_ANNOTATION),
    )


def _asks(container: Container) -> bool:
    requests = container.resources.requests if container.resources is not None else None
    return any(_is_mig(name) for name in requests or ())


def _is_mig(name: str) -> bool:
    return name.startswith(MIG_RESOURCE_PREFIX)


def _profile(resource: str) -> str:
    """Return the profile of a resource: "1g.10gb+me" for a name that ends in "mig-1g.10gb.me"."""
    name = resource.removeprefix(MIG_RESOURCE_PREFIX)
    return f"{name.removesuffix('.me')}+me" if name.endswith(".me") else name


def _constraints(spec: MigPodSpec) -> Constraints | None:
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    found = Constraints(
        node_selector=spec.node_selector or {},
        required_terms=tuple(required.node_selector_terms or ()) if required else None,
        tolerations=spec.tolerations or (),
    )
    return found if found.size() <= MAX_CONSTRAINTS else None


def _digest(constraints: Constraints | None) -> bytes:
    return hashlib.sha256(msgspec.json.encode(constraints)).digest()[:16] if constraints is not None else b""
