"""The two resources that the ledger follows: their facts, and what more the controller needs of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from controller.informer import ListMetadata, ObjectKey, Resource
from kube.names import (
    CORDON_ANNOTATION,
    FRACTION_LABEL,
    GPU_INDEX_ANNOTATION,
    INJECTED_ANNOTATION,
    MAX_NAME,
    SLICES_ANNOTATION,
)
from ledger.facts import NodeFact, PodFact
from ledger.from_kubernetes import (
    PLACED_WEIGHT,
    Page,
    node_from_json,
    nodes_from_json,
    pod_from_json,
    pods_from_json,
)
from modes.resource_names import ResourceNames
from service.log import get_logger

MAX_CORDON = 4000
"""Characters of the annotation that are looked at: a thousand GPUs."""


class Owner(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An owner reference of a pod."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class InjectedPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a labelled pod says of itself: for Events on it, never for the accounts."""

    uid: str
    fraction: str
    injected: str | None = None
    """The marker; None where the webhook never saw the pod."""
    slices: str | None = None
    gpu_index: str | None = None
    preferred_node: str | None = None
    lacks_slices: bool = False
    """The scheduler has looked for a node, and found some that have too few slices left."""
    owner: Owner | None = None
    """Its controller, while the pod waits for slices."""


class SeenPod(msgspec.Struct, frozen=True, gc=False):
    """One pod."""

    fact: PodFact
    injected: InjectedPod | None
    """None for pods without our label."""


class SeenNode(msgspec.Struct, frozen=True, gc=False):
    """One node."""

    fact: NodeFact
    uid: str
    cordon: str = ""
    """The annotation that takes GPUs out, as it is written; cut where no sound value is so long."""


class _Labels(msgspec.Struct, gc=False):
    fraction: str | None = msgspec.field(default=None, name=FRACTION_LABEL)


class _Annotations(msgspec.Struct, gc=False):
    injected: str | None = msgspec.field(default=None, name=INJECTED_ANNOTATION)
    slices: str | None = msgspec.field(default=None, name=SLICES_ANNOTATION)
    gpu_index: str | None = msgspec.field(default=None, name=GPU_INDEX_ANNOTATION)
    cordon: str = msgspec.field(default="", name=CORDON_ANNOTATION)


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str | None = None
    uid: str = ""
    labels: _Labels | None = None
    annotations: _Annotations | None = None
    owner_references: list[Owner] | None = msgspec.field(default=None, name="ownerReferences")


class _Field(msgspec.Struct, gc=False):
    key: str
    values: list[str] | None = None


class _Preference(msgspec.Struct, rename="camel", gc=False):
    match_fields: list[_Field] | None = None


class _Preferred(msgspec.Struct, gc=False):
    weight: int
    preference: _Preference


class _NodeAffinity(msgspec.Struct, gc=False):
    preferred: list[_Preferred] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(msgspec.Struct, rename="camel", gc=False):
    node_affinity: _NodeAffinity | None = None


class _Spec(msgspec.Struct, gc=False):
    affinity: _Affinity | None = None


class _Condition(msgspec.Struct, gc=False):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class _Status(msgspec.Struct, gc=False):
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct, gc=False):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class _PodList(msgspec.Struct, gc=False):
    items: list[_Pod]


class _Named(msgspec.Struct, gc=False):
    metadata: _Metadata


class _NamedList(msgspec.Struct, gc=False):
    items: list[_Named]


Fact = TypeVar("Fact", NodeFact, PodFact)
Extra = TypeVar("Extra")
_log = get_logger("watch")


def pods(names: ResourceNames) -> Resource[SeenPod]:
    """All pods of the cluster: any of them may hold slices."""
    decoder = msgspec.json.Decoder(_Pod)
    lists = msgspec.json.Decoder(_PodList)

    def read_list(data: bytes) -> tuple[list[SeenPod], ListMetadata]:
        page = pods_from_json(data, names)
        extras = {_key(pod): _injected(pod, names) for pod in lists.decode(data).items}
        return [SeenPod(fact, extras.get(fact.key)) for fact in page.facts], _metadata(page, "pod")

    def read(data: msgspec.Raw) -> SeenPod | None:
        return _readable(
            "pod", lambda: SeenPod(pod_from_json(data, names), _injected(decoder.decode(data), names))
        )

    return Resource("pods", "/api/v1/pods", read_list, read, _key_of_json)


def nodes(names: ResourceNames) -> Resource[SeenNode]:
    """All nodes of the cluster."""
    decoder = msgspec.json.Decoder(_Named)
    lists = msgspec.json.Decoder(_NamedList)

    def read_list(data: bytes) -> tuple[list[SeenNode], ListMetadata]:
        page = nodes_from_json(data, names)
        found = {node.metadata.name: node.metadata for node in lists.decode(data).items}
        seen = [_seen_node(fact, found.get(fact.name, _Metadata())) for fact in page.facts]
        return seen, _metadata(page, "node")

    def read(data: msgspec.Raw) -> SeenNode | None:
        return _readable(
            "node", lambda: _seen_node(node_from_json(data, names), decoder.decode(data).metadata)
        )

    return Resource("nodes", "/api/v1/nodes", read_list, read, _key_of_json)


def _seen_node(fact: NodeFact, metadata: _Metadata) -> SeenNode:
    cordon = metadata.annotations.cordon if metadata.annotations is not None else ""
    return SeenNode(fact, metadata.uid, cordon[:MAX_CORDON])


def _metadata(page: Page[Fact], kind: str) -> ListMetadata:
    for skipped in page.skipped:
        _log.error(f"a {kind} cannot be read and counts nothing", name=skipped.name, error=skipped.reason)
    return ListMetadata(page.resource_version, page.continue_token)


def _readable(kind: str, read: Callable[[], Extra]) -> Extra | None:
    try:
        return read()
    except ValueError as error:
        _log.error(f"a {kind} cannot be read and counts nothing", error=str(error))
        return None


_named = msgspec.json.Decoder(_Named)


def _key_of_json(data: msgspec.Raw) -> ObjectKey:
    return _key(_named.decode(data))


def _key(found: _Pod | _Named) -> ObjectKey:
    return found.metadata.namespace or "", found.metadata.name


def _injected(pod: _Pod, names: ResourceNames) -> InjectedPod | None:
    metadata = pod.metadata
    if metadata.labels is None or metadata.labels.fraction is None:
        return None
    notes = metadata.annotations or _Annotations()
    conditions: Sequence[_Condition] = (pod.status and pod.status.conditions) or ()
    lacks_slices = any(_says_slices(condition, names) for condition in conditions)
    return InjectedPod(
        uid=metadata.uid,
        fraction=metadata.labels.fraction,
        injected=notes.injected,
        slices=notes.slices,
        gpu_index=notes.gpu_index,
        preferred_node=_preferred_node(pod.spec),
        lacks_slices=lacks_slices,
        owner=_controller(metadata) if lacks_slices else None,
    )


def _controller(metadata: _Metadata) -> Owner | None:
    """The pod's controller; None also where its reference is none that Kubernetes' own controllers write.

    Pod authors may write any text into it.
    """
    owner = next((owner for owner in metadata.owner_references or () if owner.controller), None)
    if owner is None or not all(map(_is_plain, (owner.api_version, owner.kind, owner.name, owner.uid))):
        return None
    return owner


def _is_plain(text: str) -> bool:
    return len(text) <= MAX_NAME and text.isascii() and text.isprintable()


def _says_slices(condition: _Condition, names: ResourceNames) -> bool:
    """Whether the scheduler names slices among what nodes lack: not gates, volumes or cordons."""
    if (condition.type, condition.status, condition.reason) != ("PodScheduled", "False", "Unschedulable"):
        return False
    said = condition.message or ""
    return any(f"Insufficient {name}" in said for name in (names.per_gpu_prefix, *names.pooled))


def _preferred_node(spec: _Spec | None) -> str | None:
    affinity = spec.affinity.node_affinity if spec and spec.affinity else None
    for preferred in (affinity.preferred if affinity else None) or ():
        names = [f.values for f in preferred.preference.match_fields or () if f.key == "metadata.name"]
        if preferred.weight == PLACED_WEIGHT and names and names[0]:
            return names[0][0]
    return None
