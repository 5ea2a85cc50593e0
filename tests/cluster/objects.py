"""Pods and nodes as the API server writes them, as short as the ledger allows."""

import json

from kube.dra import CLAIM_NAME
from modes.claim import template_name


def pod(name, *, version="1", node="gpu-0", slices=4, **metadata):
    limits = {"nvidia.com/gpu-0": str(slices)}
    identity = {"name": name, "namespace": "team", "uid": name}
    resources = {"limits": limits, "requests": limits}
    return {
        "metadata": {**identity, "resourceVersion": version, **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "task", "resources": resources}]},
        "status": {"phase": "Running"},
    }


def claiming(pod, share):
    """The pod in mode dra, with a claim instead of slices."""
    uses = {"name": CLAIM_NAME, "resourceClaimTemplateName": template_name(share)}
    containers = [{"name": "task", "resources": {"claims": [{"name": CLAIM_NAME}]}}]
    return {**pod, "spec": {**pod["spec"], "containers": containers, "resourceClaims": [uses]}}


def node(name, *, gpus=2, version="1"):
    amounts = {"cpu": "64", "memory": "256Gi"} | {f"nvidia.com/gpu-{i}": "8" for i in range(gpus)}
    return {
        "metadata": {
            "name": name,
            "resourceVersion": version,
            "uid": f"uid-{name}",
            "labels": {"nvidia.com/gpu.memory": "81920"},
        },
        "spec": {},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def listed(*items, version="10", more=None):
    metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
    return {"kind": "List", "metadata": metadata, "items": list(items)}


def event(kind, obj):
    return {"type": kind, "object": obj}


def bookmark(version):
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


def read_object(resource, found):
    """What the controller makes of one object."""
    return resource.reader.read_object(json.dumps(found).encode())
