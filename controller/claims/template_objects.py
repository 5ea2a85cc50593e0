"""ResourceClaimTemplates as the controller writes and watches them, and the pods that name them."""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectMetadata, ObjectReader, logged, refuse
from kube.dra import TEMPLATE_LABEL
from kube.objects import PodClaim
from modes.claim_name import sizes_of_name

API_VERSION = "resource.k8s.io/v1"
ALL_PATH = f"/apis/{API_VERSION}/resourceclaimtemplates"


class SeenTemplate(msgspec.Struct, frozen=True, gc=False):
    """A template with our label; its author is unknown."""

    namespace: str
    name: str
    spec: Any
    """Its `spec`, as decoded JSON; None if it is larger than any of ours."""


class _Template(msgspec.Struct, gc=False):
    metadata: ObjectMetadata
    spec: Any = None


class _PodSpec(msgspec.Struct, rename="camel", frozen=True, gc=False):
    resource_claims: list[PodClaim] | None = None


class _Pod(msgspec.Struct, gc=False):
    metadata: ObjectMetadata
    spec: _PodSpec = _PodSpec()


MAX_SPEC = 64 * 1024
"""Bytes of a kept `spec`: ours are smaller, and anybody may write templates with our label."""
_decode = msgspec.json.Decoder(_Template).decode


def templates() -> Resource[SeenTemplate]:
    """All templates with our label."""
    return Resource(
        "resourceclaimtemplates",
        ALL_PATH,
        ObjectReader(_Template, _watched, logged("a ResourceClaimTemplate cannot be read and is ignored")),
        fields={"labelSelector": TEMPLATE_LABEL},
        is_optional=True,
    )


def template_users(namespace: str) -> Resource[set[str]]:
    """Pods of a namespace that are not bound, each as the names of its claims' templates."""

    def named(pod: _Pod) -> set[str]:
        claims = pod.spec.resource_claims or ()
        return {claim.resource_claim_template_name for claim in claims if claim.resource_claim_template_name}

    path, reader = f"/api/v1/namespaces/{namespace}/pods", ObjectReader(_Pod, named, refuse)
    return Resource("pods", path, reader, fields={"fieldSelector": "spec.nodeName="})


def read_template(data: bytes) -> SeenTemplate:
    """Read one template.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return _seen(_decode(data))


def path_of(namespace: str, name: str = "") -> str:
    """Return the API path of the templates of a namespace, or of one of them."""
    path = f"/apis/{API_VERSION}/namespaces/{namespace}/resourceclaimtemplates"
    return f"{path}/{name}" if name else path


def manifest(namespace: str, name: str, spec: Any) -> dict[str, Any]:
    """Return a template to create."""
    metadata = {"name": name, "namespace": namespace, "labels": {TEMPLATE_LABEL: "share"}}
    return {"apiVersion": API_VERSION, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def _watched(found: _Template) -> SeenTemplate:
    """Return a template that may be ours.

    Raises:
        ValueError: its name is none of ours.
    """
    if sizes_of_name(found.metadata.name) is None:
        raise ValueError("it has our label, but its name is not that of a share's template: remove the label")
    return _seen(found)


def _seen(found: _Template) -> SeenTemplate:
    spec = found.spec
    if isinstance(spec, dict) and not spec.get("metadata"):
        # The API server adds the empty metadata of the claims to be made.
        spec = {name: value for name, value in spec.items() if name != "metadata"}
    if len(msgspec.json.encode(spec)) > MAX_SPEC:
        spec = None
    return SeenTemplate(found.metadata.namespace, found.metadata.name, spec)
