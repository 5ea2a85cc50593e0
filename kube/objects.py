"""Nodes and pods of the Kubernetes API, with only the fields that the ledger needs.

Code that needs more fields extends these types, so that an object is decoded once.
"""

from __future__ import annotations

import msgspec

from kube.names import (
    FRACTION_LABEL,
    INJECTED_ANNOTATION,
    MEMORY_LABEL,
    MEMORY_MIB_ANNOTATION,
    QUEUE_ID_LABEL,
    QUEUE_NAME_LABEL,
    RESERVATION_ANNOTATION,
)
from kube.resource_requests import Container, ContainerRequests
from kube.scheduling import NodeSelector, NodeSelectorTerm, Taint

PLACED_WEIGHT = 100
"""Weight of the preferred node affinity, by metadata.name, that marks a placement."""


class OwnerReference(msgspec.Struct, gc=False):
    """The part of an owner reference that identifies replicas of one controller."""

    uid: str = ""
    controller: bool | None = None


class NodeMetadata(msgspec.Struct, gc=False):
    """`metadata` of a Node."""

    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class NodeSpec(msgspec.Struct, gc=False):
    """`spec` of a Node."""

    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class Condition(msgspec.Struct, gc=False):
    """A condition of a node or pod."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class NodeStatus(msgspec.Struct, gc=False):
    """`status` of a Node."""

    allocatable: dict[str, str | int] | None = None
    capacity: dict[str, str | int] | None = None
    conditions: list[Condition] | None = None


class Node(msgspec.Struct, gc=False):
    """A Node."""

    metadata: NodeMetadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class PodLabels(msgspec.Struct, gc=False):
    """The labels that state a pod's share, and the ClearML agent's labels: the queue's name and id."""

    queue_name: str | None = msgspec.field(default=None, name=QUEUE_NAME_LABEL)
    queue_id: str | None = msgspec.field(default=None, name=QUEUE_ID_LABEL)
    fraction: str | None = msgspec.field(default=None, name=FRACTION_LABEL)
    gpu_memory: str | None = msgspec.field(default=None, name=MEMORY_LABEL)


class PodAnnotations(msgspec.Struct, gc=False):
    """Our annotations of a pod."""

    reservation: str | None = msgspec.field(default=None, name=RESERVATION_ANNOTATION)
    injected: str | None = msgspec.field(default=None, name=INJECTED_ANNOTATION)
    memory_mib: str | None = msgspec.field(default=None, name=MEMORY_MIB_ANNOTATION)


class PodMetadata(msgspec.Struct, rename="camel", gc=False):
    """`metadata` of a Pod."""

    name: str
    namespace: str = "default"
    labels: PodLabels | None = None
    annotations: PodAnnotations | None = None
    generate_name: str | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Preference(msgspec.Struct, gc=False):
    """A preferred node affinity."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(msgspec.Struct, gc=False):
    """`nodeAffinity` of a Pod."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[Preference, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


def preferred_node(affinity: NodeAffinity | None) -> str | None:
    """Return the node that a placement prefers by name; None if there is no such preference."""
    for preferred in (affinity.preferred if affinity is not None else None) or ():
        fields = preferred.preference.match_fields
        if (
            preferred.weight == PLACED_WEIGHT
            and fields
            and fields[0].key == "metadata.name"
            and fields[0].values
        ):
            return fields[0].values[0]
    return None


class Affinity(msgspec.Struct, rename="camel", gc=False):
    """`affinity` of a Pod."""

    node_affinity: NodeAffinity | None = None


class SchedulingGate(msgspec.Struct, gc=False):
    """A scheduling gate of a pod: the scheduler ignores the pod until all are removed."""

    name: str


class PodClaim(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """An entry of a pod's `resourceClaims`."""

    name: str
    resource_claim_template_name: str | None = None


class PodSpec(msgspec.Struct, rename="camel", gc=False):
    """`spec` of a Pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, str | int] | None = None
    resources: ContainerRequests | None = None
    node_name: str | None = None
    affinity: Affinity | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    resource_claims: tuple[PodClaim, ...] | None = None
    priority: int | None = None


class PodStatus(msgspec.Struct, gc=False):
    """`status` of a Pod."""

    phase: str | None = None
    conditions: tuple[Condition, ...] | None = None


class Pod(msgspec.Struct, gc=False):
    """A Pod."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus | None = None


class ListMeta(msgspec.Struct, rename="camel", gc=False):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")
