"""Nodes and pods as the Kubernetes API sends them, cut down to the fields that the ledger needs."""

from __future__ import annotations

from typing import Any

import msgspec

from kube.names import QUEUE_ID_LABEL, QUEUE_NAME_LABEL, RESERVATION_ANNOTATION
from kube.requests import Container, Resources
from kube.scheduling import NodeSelector, NodeSelectorTerm, Taint


class OwnerReference(msgspec.Struct, gc=False):
    """The part of an owner reference that tells replicas of one controller."""

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
    """The ClearML agent's labels of a pod: its queue by name and by id."""

    queue_name: str | None = msgspec.field(default=None, name=QUEUE_NAME_LABEL)
    queue_id: str | None = msgspec.field(default=None, name=QUEUE_ID_LABEL)


class PodAnnotations(msgspec.Struct, gc=False):
    """Our annotation of a pod."""

    reservation: str | None = msgspec.field(default=None, name=RESERVATION_ANNOTATION)


class PodMetadata(msgspec.Struct, rename="camel", gc=False):
    """`metadata` of a Pod."""

    name: str
    namespace: str = "default"
    labels: PodLabels | None = None
    annotations: PodAnnotations | None = None
    generate_name: str | None = None
    owner_references: list[OwnerReference] | None = None


class Preference(msgspec.Struct, gc=False):
    """A preferred node affinity."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(msgspec.Struct, gc=False):
    """`nodeAffinity` of a Pod."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[Preference] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, rename="camel", gc=False):
    """`affinity` of a Pod."""

    node_affinity: NodeAffinity | None = None


class PodSpec(msgspec.Struct, rename="camel", gc=False):
    """`spec` of a Pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, str | int] | None = None
    resources: Resources | None = None
    node_name: str | None = None
    affinity: Affinity | None = None


class PodStatus(msgspec.Struct, gc=False):
    """`status` of a Pod."""

    phase: str | None = None
    conditions: list[Condition] | None = None


class Pod(msgspec.Struct, gc=False):
    """A Pod."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus | None = None


class ListMetadata(msgspec.Struct, rename="camel", gc=False):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class NodeList(msgspec.Struct, gc=False):
    """A list of Nodes."""

    items: list[Node]
    metadata: ListMetadata | None = None


class PodList(msgspec.Struct, gc=False):
    """A list of Pods."""

    items: list[Pod]
    metadata: ListMetadata | None = None


class RawList(msgspec.Struct, gc=False):
    """A list whose items are read one by one."""

    items: list[msgspec.Raw]
    metadata: ListMetadata | None = None


class Named(msgspec.Struct, gc=False):
    """Any object, for its name."""

    metadata: dict[str, Any]
