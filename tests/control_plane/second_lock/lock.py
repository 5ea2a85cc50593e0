"""What the tests of the second lock share: its policies, its refusals, and whether it is in effect."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.control_plane.api import Api, ApiError, Object
from tests.control_plane.chart import RELEASE
from tests.control_plane.gpu_nodes import GpuNode
from tests.control_plane.product import decides
from tests.control_plane.registration import labelled_pod, probe
from tests.control_plane.test_manifests import INVENTORY

NODES = {
    **{name: node.manifest(name) for name, node in INVENTORY.items()},
    "lock-pooled": GpuNode(gpus=2, memory_mib=24576, pooled=True).manifest("lock-pooled"),
    "lock-quarters": GpuNode(gpus=2).manifest("lock-quarters"),
}
QUARTERS = {"nvidia.com/gpu-0": "4", "nvidia.com/gpu-1": "4"}
NODES["lock-quarters"]["status"]["allocatable"] |= QUARTERS
NODES["lock-quarters"]["status"]["capacity"] |= QUARTERS
POLICIES = {
    "default": {},
    "whole": {
        "namespaces": ["lock-whole"],
        "fractions": {"0.125": 1, "0.500": 4, "1.000": 8, "2.0": 16, "3": 24},
    },
    "pooled": {"namespaces": ["lock-pooled"], "resources": {"mode": "pooled"}},
    "driver": {"namespaces": ["lock-driver"], "limiter": "nvidia-driver"},
    "quarters": {"namespaces": ["lock-quarters"], "slicesPerGpu": 4},
    "open": {"namespaces": ["lock-open"], "limiter": "none"},
    "custom": {"namespaces": ["lock-custom"], "limiter": "site"},
}
LIMITERS = {
    "site": {
        "env": {"SITE_SHARE": "{percent}"},
        "modes": {"per-gpu": {"env": {"SITE_MIB": "{memory_mib}"}}},
    }
}
QUEUES = {"trusted": {"namespaces": ["lock-queue"], "limiter": "none"}}
VALUES = {"policies": POLICIES, "limiters": LIMITERS, "queues": QUEUES}
NAMESPACES = ("lock-default", "lock-queue", *(f"lock-{name}" for name in POLICIES if name != "default"))
OLD = "lock-old"
"""Namespace of a pod from before the install."""


def in_effect(api: Api) -> bool:
    """Whether webhook and lock are: of the lock's parts, the one about unlabelled pods comes last."""
    return decides(probe(api, OLD)) and not is_allowed(api, asking("nvidia.com/gpu-0"), OLD)


def is_allowed(api: Api, pod: Object, namespace: str) -> bool:
    """Whether a pod could be created."""
    try:
        api.create(pod, namespace, dry_run=True)
    except ApiError:
        return False
    return True


def unlabelled_pod(name: str = "unlabelled", **spec: object) -> Object:
    """A pod that we have nothing to do with."""
    pod = labelled_pod(name, **spec)
    del pod["metadata"]["labels"]
    return pod


def asking(resource: str, containers: str = "containers") -> Object:
    """An unlabelled pod of which a container, or an init container, asks for a resource."""
    pod = unlabelled_pod()
    container = {"name": "asks", "image": "example.com/task:1", "resources": {"limits": {resource: "1"}}}
    pod["spec"].setdefault(containers, []).append(container)
    return pod


@contextmanager
def refused(policy: str, message: str) -> Iterator[None]:
    """Expect that this part of the lock refuses, in exactly these words."""
    name = f"{RELEASE}-{policy}"
    with pytest.raises(ApiError) as error:
        yield
    _, found, text = str(error.value).partition(
        f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: "
    )
    assert found, str(error.value)
    assert (error.value.code, text) == (403, message)
