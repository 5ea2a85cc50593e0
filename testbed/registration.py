"""Registering a webhook with the API server, and knowing when that has taken effect."""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from testbed.api import Api, ApiError, Object
from testbed.process import eventually

LABEL = "clearml-injector/fraction"
MEMORY_LABEL = "clearml-injector/gpu-memory"
ASKS_FOR_A_SHARE = " || ".join(
    f"object.metadata.?labels[?'{name}'].hasValue()" for name in (LABEL, MEMORY_LABEL)
)
OWN_NAMESPACE = "gpu-fraction-injector"
KIND, API = "MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1"

Outcome = Object | ApiError
"""What became of a labelled pod: as it would be stored, or refused."""


def configuration(name: str, url: str, ca_pem: bytes, **entry: Any) -> Object:
    """The product's webhook configuration for a webhook at a URL: labelled pods and Jobs, failing closed.

    `entry` replaces fields of its one entry.
    """
    excluded = {"key": "kubernetes.io/metadata.name", "operator": "NotIn"}
    webhook = {
        "name": f"{name}.clearml-injector.io",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_pem).decode()},
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 5,
        "matchConditions": [{"name": "asks-for-a-share", "expression": ASKS_FOR_A_SHARE}],
        "namespaceSelector": {"matchExpressions": [{**excluded, "values": [OWN_NAMESPACE, "kube-system"]}]},
        "rules": [_on_create("", "pods"), _on_create("batch", "jobs")],
        **entry,
    }
    return {"apiVersion": API, "kind": KIND, "metadata": {"name": name}, "webhooks": [webhook]}


def _on_create(group: str, resource: str) -> Object:
    return {"operations": ["CREATE"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource]}


@contextmanager
def registered(api: Api, config: Object, namespace: str, works: Callable[[Outcome], bool]) -> Iterator[None]:
    """Keep a webhook registered, from when it takes effect until it no longer does.

    Args:
        api: Client of the API server.
        config: As `configuration` makes it.
        namespace: Where dry runs ask what becomes of a labelled pod.
        works: Whether that outcome shows the webhook's effect.
    """
    name = config["metadata"]["name"]
    api.create(config)
    try:
        eventually(lambda: works(probe(api, namespace)), f"webhook {name} takes effect")
        yield
    finally:
        api.delete(KIND, name, api=API)
        eventually(lambda: not works(probe(api, namespace)), f"webhook {name} is out of effect")


def probe(api: Api, namespace: str) -> Outcome:
    """Ask what would become of a small labelled pod."""
    try:
        return api.create(labelled_pod("probe"), namespace, dry_run=True)
    except ApiError as error:
        return error


def refuses(outcome: Outcome) -> bool:
    """Whether the pod was refused."""
    return isinstance(outcome, ApiError)


def asking_for_memory(memory: str, name: str = "memory") -> Object:
    """A pod that asks for GPU memory, such as "4Gi", and nothing else."""
    pod = labelled_pod(name)
    pod["metadata"]["labels"] = {MEMORY_LABEL: memory}
    return pod


def labelled_pod(name: str, fraction: str = "0.125", **spec: Any) -> Object:
    """A pod that asks for a fraction and nothing else; its container is named like it, as ClearML does."""
    metadata = {"name": name, "labels": {LABEL: fraction}}
    containers = [{"name": name or "task", "image": "example.com/task:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }
