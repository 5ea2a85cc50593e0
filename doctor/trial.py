"""Creates a labelled pod in a dry run, as its users do: what comes back is what they get."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer, transport_cause
from doctor.seen import NotRead, Read, Trial
from kube.names import FRACTION_LABEL, INJECTED_ANNOTATION, MEMORY_LABEL, NO_SHARE_ANNOTATION
from policies.loading.policy_set import PolicySet
from policies.model.effective import EffectivePolicy

NAME = "fraction-injector-doctor"
MAX_MESSAGE = 1000
_NO_RIGHT = 'cannot create resource "pods"'
"""What Kubernetes says before it asks any webhook."""
_LEAST_MIB = 1024
"""MiB that are requested where a policy has no fractions, unless it sets a larger minimum."""


async def try_pod(api: ApiServer, namespace: str, policies: PolicySet | None) -> Read[Trial] | NotRead:
    """Create a pod in a dry run: nothing is stored, and the webhook reserves nothing.

    Args:
        api: used with the rights of its user.
        namespace: namespace of the pod.
        policies: the stored policies, of which the smallest share is requested; None if they are unknown.

    Raises:
        OSError, TimeoutError, aiohttp.ClientError: the API server cannot be reached.
    """
    policy = policies.resolve(namespace, None, None) if policies is not None else None
    if policy is not None and not policy.fractions and policy.memory is None:
        return Read(Trial(namespace, closed_by=policy.name))
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    try:
        data = await api.request("POST", path, query={"dryRun": "All"}, body=_pod(_labels(policy)))
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return NotRead(f"namespace {namespace} does not exist: name another by --try-namespace")
        if error.status == HTTPStatus.FORBIDDEN and _NO_RIGHT in str(error):
            return NotRead(f"you lack the right to create pods in namespace {namespace}")
        return Read(Trial(namespace, refusal=str(error)[:MAX_MESSAGE]))
    except TRANSPORT_ERRORS as error:
        why = transport_cause(error)
        what = f"the API server does not answer the creation of a pod in namespace {namespace}: {why}"
        return NotRead(what, "failed", "see its log: an admission webhook may hang")
    annotations = msgspec.json.decode(data)["metadata"].get("annotations") or {}
    injected = annotations.get(INJECTED_ANNOTATION)
    return Read(Trial(namespace, injected=injected, no_share=annotations.get(NO_SHARE_ANNOTATION)))


def _pod(labels: dict[str, str]) -> dict[str, Any]:
    """Return a pod that a restricted namespace accepts."""
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "tried", "image": "registry.k8s.io/pause:3.10", "securityContext": security}
    metadata = {"name": NAME, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def _labels(policy: EffectivePolicy | None) -> dict[str, str]:
    """Return the request for the smallest share that a policy allows."""
    if policy is None:
        return {FRACTION_LABEL: "0.125"}
    if not policy.fractions:
        return {MEMORY_LABEL: f"{max(_LEAST_MIB, policy.memory.min_mib if policy.memory else 0)}Mi"}
    return {FRACTION_LABEL: min(policy.fractions, key=lambda text: policy.fractions[text].slices)}
