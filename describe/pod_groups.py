"""Gangs: the group of pods that a pod starts together with, by each scheduler's labels and annotations."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

import msgspec

from cluster.listing import Resource, objects_at

LABELS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io/name",
    "kueue.x-k8s.io/pod-group-name",
)
"""Labels that name a pod's group: two of the coscheduling plugin, and Kueue's."""
ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "pod-group-name")
"""Annotations that name a pod's group: of kube-batch and Volcano, of Volcano, and of KAI."""


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _SchedulingGroup(msgspec.Struct, rename="camel"):
    pod_group_name: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    scheduling_group: _SchedulingGroup | None = None


class _Status(msgspec.Struct):
    phase: str = "Pending"


class GroupPod(msgspec.Struct):
    """A pod with the fields that name its group and its node."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def group(self) -> str | None:
        """Name of the pod's group; None without one."""
        native = self.spec.scheduling_group
        labels, annotations = self.metadata.labels or {}, self.metadata.annotations or {}
        named = [*map(labels.get, LABELS), *map(annotations.get, ANNOTATIONS)]
        return next(filter(None, [native.pod_group_name if native is not None else None, *named]), None)


def group_of(data: bytes) -> str | None:
    """Return the name of a pod's group; None without one.

    Raises:
        msgspec.MsgspecError: it is not a pod.
    """
    return msgspec.json.decode(data, type=GroupPod).group


def pods_of(namespace: str) -> Resource[GroupPod]:
    """Return the resource to list the pods of a namespace for counting."""
    return objects_at(f"/api/v1/namespaces/{quote(namespace, safe='')}/pods", GroupPod)


def count_group(pods: Iterable[GroupPod], group: str) -> tuple[int, int]:
    """Count a group's pods that have not ended: those with a node, and those without."""
    of_group = [pod for pod in pods if pod.group == group]
    alive = [pod for pod in of_group if pod.status.phase not in {"Succeeded", "Failed"}]
    bound = sum(pod.spec.node_name is not None for pod in alive)
    return bound, len(alive) - bound
