"""Pods that use GPUs without an injection: nothing of ours limits them, and the ledger may not count them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote

from cluster.kube_client import ApiServer
from cluster.listing import Resource, list_all
from cluster.object_reader import ObjectReader, refuse
from kube.device_keys import VISIBLE_DEVICES
from kube.names import ASKING_LABELS, INJECTED_ANNOTATION, NO_SHARE_ANNOTATION
from modes.gpu_names import STANDARD_INDEX
from modes.resource_kinds import ResourceKinds
from modes.resource_names import ResourceNames
from policies.model.pod_keys import misplaced_keys

Json = dict[str, Any]
MAX_SHOWN = 80
"""Characters of an amount or value that a user wrote."""
NO_DEVICES = frozenset({"", "void", "none"})
"""Values for which NVIDIA's runtime gives a container no device files."""


@dataclass(frozen=True, slots=True)
class Uninjected:
    """A pod that has not ended, uses GPUs or requests a share, and was never injected."""

    namespace: str
    pod: str
    node: str | None
    why: str
    """How it uses GPUs, or which label or annotation has no effect."""


async def list_uninjected(
    api: ApiServer,
    names: ResourceNames | None = None,
    namespace: str | None = None,
    label: str | None = None,
) -> list[Uninjected]:
    """Return such pods, in the API server's order.

    Args:
        api: used with the rights of its user.
        names: names that also request GPUs; None for the default ones.
        namespace: namespace of the pods; None for the cluster.
        label: only pods with this label, so that the API server sends no others.

    Raises:
        ApiError, OSError, TimeoutError, aiohttp.ClientError: the pods cannot be listed.
        msgspec.MsgspecError: the answer is not a list of pods.
    """
    path = "/api/v1/pods" if namespace is None else f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    kinds = ResourceKinds(STANDARD_INDEX, None, names or ResourceNames(), frozenset())
    reader = ObjectReader[Json, Uninjected | None](Json, partial(_read, kinds=kinds), refuse)
    fields = {"labelSelector": label} if label is not None else {}
    return list(filter(None, await list_all(api, Resource("pods", path, reader, fields))))


def _read(pod: Json, kinds: ResourceKinds) -> Uninjected | None:
    try:
        return _uninjected(pod, kinds)
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"it is no pod: {error}") from error


def _uninjected(pod: Json, kinds: ResourceKinds) -> Uninjected | None:
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = metadata.get("annotations") or {}
    if pod["status"].get("phase") in {"Succeeded", "Failed"} or INJECTED_ANNOTATION in annotations:
        return None
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    # The most important reason first.
    reasons = chain(_without_effect(metadata.get("labels") or {}, annotations), _used(containers, kinds))
    why = next(reasons, None)
    found = metadata.get("namespace", ""), metadata["name"], spec.get("nodeName")
    return Uninjected(*found, why) if why is not None else None


def _used(containers: Sequence[Json], kinds: ResourceKinds) -> Iterator[str]:
    """Yield which GPUs containers request, then which they are given without a request."""
    for container in containers:
        resources = container.get("resources") or {}
        for amounts in (resources.get("limits"), resources.get("requests")):
            for name, amount in (amounts or {}).items():
                kind = kinds[name]
                if kind is not None and not kind.can_be_allowed and str(amount) != "0":
                    yield f"container {container['name']} requests {name}: {str(amount)[:MAX_SHOWN]}"
    for container in containers:
        for variable in container.get("env") or ():
            value = variable.get("value", "")
            if variable["name"] == VISIBLE_DEVICES and value not in NO_DEVICES:
                yield f"container {container['name']} has {VISIBLE_DEVICES}={value[:MAX_SHOWN]}"


def _without_effect(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield labels and annotations of ours that gave the pod nothing, though its policy gives shares."""
    for label in ASKING_LABELS:
        if label in labels and NO_SHARE_ANNOTATION not in annotations:
            yield f'label {label} "{labels[label][:MAX_SHOWN]}" has no effect: delete it and create it again'
    for kind, key, rule in misplaced_keys(labels, annotations):
        yield f"{kind} {key[:MAX_SHOWN]} {rule}"
