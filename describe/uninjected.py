"""Pods that use GPUs without an injection: nothing of ours limits them, and the ledger may not count them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

import msgspec

from cluster.kube_client import ApiServer
from cluster.listing import Resource, list_all
from cluster.object_reader import ObjectReader, refuse
from kube.device_keys import VISIBLE_DEVICES
from kube.names import ASKING_LABELS, INJECTED_ANNOTATION, NO_SHARE_ANNOTATION
from modes.gpu_names import STANDARD_INDEX
from modes.resource_kinds import ResourceKinds
from modes.resource_names import ResourceNames
from policies.model.pod_keys import misplaced_keys

MAX_SHOWN = 80
"""Characters of an amount or value that a user wrote."""
NO_DEVICES = frozenset({"", "void", "none"})
"""Values for which NVIDIA's runtime gives a container no device files."""


class _Resources(msgspec.Struct):
    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class _Container(msgspec.Struct):
    name: str
    resources: _Resources = msgspec.field(default_factory=_Resources)
    env: list[_Variable] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    node_name: str | None = None


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Status(msgspec.Struct):
    phase: str = "Pending"


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, slots=True)
class Uninjected:
    """A pod that has not ended, uses GPUs or requests a share, and was never injected."""

    namespace: str
    pod: str
    node: str | None
    why: str
    """How it uses GPUs, or which label or annotation has no effect."""


async def list_uninjected(
    api: ApiServer, names: ResourceNames, namespace: str | None = None, label: str | None = None
) -> list[Uninjected]:
    """Return such pods, in the API server's order.

    Args:
        api: used with the rights of its user.
        names: names that also request GPUs.
        namespace: namespace of the pods; None for the cluster.
        label: only pods with this label, so that the API server sends no others.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the pods cannot be listed.
        msgspec.MsgspecError: the answer is not a list of pods.
    """
    path = "/api/v1/pods" if namespace is None else f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    kinds = ResourceKinds(STANDARD_INDEX, None, names, frozenset())
    reader = ObjectReader[_Pod, Uninjected | None](_Pod, partial(_uninjected, kinds=kinds), refuse)
    fields = {"labelSelector": label} if label is not None else {}
    return list(filter(None, await list_all(api, Resource("pods", path, reader, fields))))


def _uninjected(pod: _Pod, kinds: ResourceKinds) -> Uninjected | None:
    metadata = pod.metadata
    if pod.status.phase in {"Succeeded", "Failed"} or INJECTED_ANNOTATION in (metadata.annotations or ()):
        return None
    why = next(_reasons(pod, kinds), None)
    if why is None:
        return None
    return Uninjected(metadata.namespace, metadata.name, pod.spec.node_name, why)


def _reasons(pod: _Pod, kinds: ResourceKinds) -> Iterator[str]:
    """Yield why a pod is listed, the most important reason first."""
    yield from _without_effect(pod.metadata.labels or {}, pod.metadata.annotations or {})
    containers = [*pod.spec.containers, *(pod.spec.init_containers or ())]
    for container in containers:
        for amounts in (container.resources.limits, container.resources.requests):
            for name, amount in (amounts or {}).items():
                kind = kinds[name]
                if kind is not None and not kind.can_be_allowed and str(amount) != "0":
                    yield f"container {container.name} requests {name}: {str(amount)[:MAX_SHOWN]}"
    for container in containers:
        for variable in container.env or ():
            if variable.name == VISIBLE_DEVICES and variable.value not in NO_DEVICES:
                yield f"container {container.name} has {VISIBLE_DEVICES}={variable.value[:MAX_SHOWN]}"


def _without_effect(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield labels and annotations of ours that gave the pod nothing, though its policy gives shares."""
    for label in ASKING_LABELS:
        if label in labels and NO_SHARE_ANNOTATION not in annotations:
            yield f'label {label} "{labels[label][:MAX_SHOWN]}" has no effect: delete it and create it again'
    for kind, key, rule in misplaced_keys(labels, annotations):
        yield f"{kind} {key[:MAX_SHOWN]} {rule}"
