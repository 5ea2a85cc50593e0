"""Pods without a node, of which only the claims' templates matter."""

from __future__ import annotations

import msgspec

from cluster.listing import Resource
from cluster.object_reader import ObjectMetadata, ObjectReader, refuse
from kube.objects import PodClaim


class _Spec(msgspec.Struct, rename="camel", frozen=True, gc=False):
    resource_claims: list[PodClaim] | None = None


class _Pod(msgspec.Struct, gc=False):
    metadata: ObjectMetadata
    spec: _Spec = _Spec()


def template_users(namespace: str) -> Resource[set[str]]:
    """Pods of a namespace that are not bound, each as the names of its claims' templates."""
    return Resource(
        "pods",
        f"/api/v1/namespaces/{namespace}/pods",
        ObjectReader(_Pod, _templates, refuse),
        fields={"fieldSelector": "spec.nodeName="},
    )


def _templates(pod: _Pod) -> set[str]:
    claims = pod.spec.resource_claims or ()
    return {claim.resource_claim_template_name for claim in claims if claim.resource_claim_template_name}
