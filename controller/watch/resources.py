"""Nodes and pods as the controller watches them: their facts, and what else it needs of each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectReader, logged
from controller.watch.agent_taint import NodeTaints, taints_of
from controller.watch.mig_facts import MigNodeFact, MigPod, MigPodSpec, is_unschedulable, mig_node, mig_pod
from kube.dra import CLAIM_NAME
from kube.names import FRACTION_LABEL, GPU_INDEX_ANNOTATION, MAX_NAME, MEMORY_LABEL, SLICES_ANNOTATION
from kube.objects import (
    Condition,
    Node,
    NodeMetadata,
    NodeSpec,
    NodeStatus,
    OwnerReference,
    Pod,
    PodAnnotations,
    PodLabels,
    PodMetadata,
    PodStatus,
)
from ledger.from_kubernetes import node_fact, pod_fact
from ledger.instance_worth import has_instances
from ledger.use import seconds_of
from ledger.use_history import workload_text
from modes.facts import NodeFact, PodFact
from modes.mig_profiles import MIG_RESOURCE_PREFIX
from modes.resource_names import ResourceNames

NO_CARDS = "cannot allocate all claims"
"""What the scheduler says of nodes whose devices a pod's claims cannot have."""


class Owner(OwnerReference, rename="camel", gc=False):
    """An owner reference of a pod."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class InjectedPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A labelled pod's own labels and annotations: used for Events on it, never for the accounts."""

    uid: str
    asked: str
    """Value of its label."""
    label: str = FRACTION_LABEL
    """Name of that label."""
    injected: str | None = None
    """The marker; None if the webhook never injected the pod."""
    slices: str | None = None
    gpu_index: str | None = None
    limited_by_agent: bool = False
    """Whether no MiB were written into it: only the agent of its node limits it, by the pod's slices."""
    has_claim: bool = False
    """Whether it claims its share, so that it requests no slices."""
    lacks_slices: bool = False
    """Whether the scheduler searched a node, and found some with too few free slices."""
    lacks_cards: bool = False
    """Whether it claims its share, and the scheduler found no node with room on its cards."""
    owner: Owner | None = None
    """Its controller, while the pod waits for slices."""
    workload: str = ""
    """Kind and name of what created it, for the history of what its pods use."""
    running_since: int | None = None
    """When the last of its containers started or ended, in seconds since 1970 by its node's clock.

    None unless all have started: images are pulled, init containers run, or one waits for its next start.
    """


class SeenPod(msgspec.Struct, frozen=True, gc=False):
    """A Pod, with the fields that the ledger reads."""

    fact: PodFact
    injected: InjectedPod | None
    """None for pods without our label."""
    created: str = ""
    """Creation time, as RFC 3339; only for pods that request slices or claim their share."""
    mig: MigPod | None = None
    """Its request for MIG instances, if cards are divided on demand."""

    @property
    def is_limited_by_agent(self) -> bool:
        """Whether only the agent of its node limits it."""
        return self.injected is not None and self.injected.limited_by_agent


class SeenNode(msgspec.Struct, frozen=True, gc=False):
    """A Node, with the fields that the ledger reads."""

    fact: NodeFact
    uid: str
    mig: MigNodeFact | None = None
    """How its cards are divided, if that is done on demand."""
    taints: NodeTaints = NodeTaints()
    boot_id: str = ""
    """Boot ID in its status."""
    offers_nothing: bool = False
    """Whether its status names resources of slices, but all are zero: no device plugin serves."""


class _PodAnnotations(PodAnnotations, gc=False):
    slices: str | None = msgspec.field(default=None, name=SLICES_ANNOTATION)
    gpu_index: str | None = msgspec.field(default=None, name=GPU_INDEX_ANNOTATION)


class _PodMetadata(PodMetadata, rename="camel", kw_only=True, gc=False):
    annotations: _PodAnnotations | None = None
    owner_references: tuple[Owner, ...] | None = None
    resource_version: str = ""


class _Running(msgspec.Struct, rename="camel", gc=False):
    started_at: str = ""


class _Terminated(msgspec.Struct, rename="camel", gc=False):
    finished_at: str = ""


class _ContainerState(msgspec.Struct, gc=False):
    running: _Running | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, gc=False):
    state: _ContainerState | None = None


class _PodStatus(PodStatus, rename="camel", gc=False):
    container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Pod(Pod, kw_only=True, gc=False):
    """A pod with all fields that the ledger and the Events need, so that it is decoded once."""

    metadata: _PodMetadata
    status: _PodStatus | None = None


class _MigPod(_Pod, kw_only=True, gc=False):
    """A pod that also has the fields that show where MIG instances could serve it."""

    spec: MigPodSpec


class _NodeMetadata(NodeMetadata, rename="camel", gc=False):
    uid: str = ""
    resource_version: str = ""


class _NodeInfo(msgspec.Struct, gc=False):
    boot_id: str = msgspec.field(default="", name="bootID")


class _NodeStatus(NodeStatus, rename="camel", gc=False):
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class _Node(Node, kw_only=True, gc=False):
    """A node with its uid and boot ID."""

    metadata: _NodeMetadata
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


def pods(names: ResourceNames, *, with_mig: bool = False) -> Resource[SeenPod]:
    """All pods of the cluster, as any may hold slices; `with_mig` adds their requests for MIG instances."""

    def seen(pod: _Pod) -> SeenPod:
        fact = pod_fact(pod, names)
        injected = _injected(pod, fact, names)
        has_share = fact.slices or (injected is not None and injected.has_claim)
        created = (pod.metadata.creation_timestamp or "") if has_share else ""
        conditions = (pod.status and pod.status.conditions) or ()
        mig = mig_pod(pod.metadata, pod.spec, conditions) if isinstance(pod, _MigPod) else None
        return SeenPod(fact, injected, created, mig)

    struct = _MigPod if with_mig else _Pod
    return Resource(
        "pods", "/api/v1/pods", ObjectReader(struct, seen, logged("a pod cannot be read and is not counted"))
    )


def nodes(known: ResourceNames | None) -> Resource[SeenNode]:
    """All nodes of the cluster, by the names that policies know; None for the default ones."""
    names = known or ResourceNames()

    def seen(node: _Node) -> SeenNode:
        fact = node_fact(node, names)
        return SeenNode(
            fact,
            node.metadata.uid,
            mig_node(node),
            taints_of((node.spec or NodeSpec()).taints or ()),
            node.status.node_info.boot_id,
            _offers_nothing(node.status, fact, names),
        )

    return Resource(
        "nodes",
        "/api/v1/nodes",
        ObjectReader(_Node, seen, logged("a node cannot be read and is not counted")),
    )


def _offers_nothing(status: NodeStatus, fact: NodeFact, names: ResourceNames) -> bool:
    is_named = fact.gpus or any(name in (status.allocatable or {}) for name in names.pooled)
    return bool(is_named) and not fact.pooled and not any(slices for _, slices in fact.gpus)


def _injected(pod: _Pod, fact: PodFact, names: ResourceNames) -> InjectedPod | None:
    metadata = pod.metadata
    label, asked = _asked(metadata.labels)
    if asked is None:
        return None
    notes = metadata.annotations or _PodAnnotations()
    has_claim = any(claim.name == CLAIM_NAME for claim in pod.spec.resource_claims or ())
    conditions: Sequence[Condition] = (pod.status and pod.status.conditions) or ()
    lacks_slices = any(_says_slices(condition, names) for condition in conditions)
    controller = _controller(metadata)
    return InjectedPod(
        uid=metadata.uid,
        label=label,
        asked=asked,
        injected=notes.injected,
        slices=notes.slices,
        gpu_index=notes.gpu_index,
        has_claim=has_claim,
        limited_by_agent=(
            notes.injected is not None and notes.memory_mib is None and not has_claim and _is_part(fact)
        ),
        lacks_slices=lacks_slices,
        lacks_cards=has_claim and any(NO_CARDS in _unschedulable(each) for each in conditions),
        owner=controller if lacks_slices else None,
        workload=workload_text(controller.kind, controller.name) if controller is not None else "",
        running_since=_running_since(pod.status),
    )


def _running_since(status: _PodStatus | None) -> int | None:
    if status is None or status.phase != "Running" or not status.container_statuses:
        return None
    changed = [_changed(each.state or _ContainerState()) for each in status.container_statuses]
    known = [each for each in changed if each is not None]
    return max(known) if len(known) == len(changed) else None


def _changed(state: _ContainerState) -> int | None:
    """Return when a container started or ended; None if it waits."""
    if state.running is not None:
        return seconds_of(state.running.started_at)
    return seconds_of(state.terminated.finished_at) if state.terminated is not None else None


def _is_part(fact: PodFact) -> bool:
    """Whether a pod requests less than whole GPUs; MIG instances count as whole."""
    if has_instances(fact):
        return False
    return bool(fact.asked_mib) or (fact.share is not None and fact.share[0] % fact.share[1] != 0)


def _asked(labels: PodLabels | None) -> tuple[str, str | None]:
    """The label with which a pod requests a share, and its value; None without one."""
    if labels is None or labels.fraction is not None or labels.gpu_memory is None:
        return FRACTION_LABEL, labels.fraction if labels is not None else None
    return MEMORY_LABEL, labels.gpu_memory


def _controller(metadata: _PodMetadata) -> Owner | None:
    """The pod's controller; None if its reference is not one that Kubernetes' own controllers write.

    Users can write any text into it.
    """
    owner = next((owner for owner in metadata.owner_references or () if owner.controller), None)
    if owner is None or not all(map(_is_plain, (owner.api_version, owner.kind, owner.name, owner.uid))):
        return None
    return owner


def _is_plain(text: str) -> bool:
    return len(text) <= MAX_NAME and text.isascii() and text.isprintable()


def _says_slices(condition: Condition, names: ResourceNames) -> bool:
    """Whether the scheduler's message names slices among what nodes lack, not gates, volumes or cordons."""
    said = _unschedulable(condition)
    return any(
        f"Insufficient {name}" in said for name in (names.per_gpu_prefix, MIG_RESOURCE_PREFIX, *names.pooled)
    )


def _unschedulable(condition: Condition) -> str:
    """Return why the scheduler found no node; empty if it did not say so."""
    return (condition.message or "") if is_unschedulable(condition) else ""
