"""What the tests of the second lock share: its policies, its refusals, and whether it is in effect."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from testbed.api import Api, ApiError, Object
from testbed.chart import CHART, RELEASE
from testbed.cluster import Cluster
from testbed.command import Output
from testbed.gpu_nodes import GpuNode
from testbed.product import decides
from testbed.registration import LABEL, labelled_pod, probe
from tests.control_plane.test_manifests import INVENTORY

NODES = {
    **{name: node.manifest(name) for name, node in INVENTORY.items()},
    "lock-pooled": GpuNode(gpus=2, memory_mib=24576, pooled=True).manifest("lock-pooled"),
    "lock-quarters": GpuNode(gpus=2).manifest("lock-quarters"),
    "lock-mig": GpuNode(
        gpus=0, instances={"nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-3g.40gb": 1}
    ).manifest("lock-mig"),
    **{
        f"lock-{profile}": GpuNode(
            gpus=0, product=f"NVIDIA-A100-SXM4-80GB-MIG-{profile}", instances={"nvidia.com/gpu": count}
        ).manifest(f"lock-{profile}")
        for profile, count in (("3g.40gb", 2), ("7g.80gb", 1))
    },
}
QUARTERS = {"nvidia.com/gpu-0": "4", "nvidia.com/gpu-1": "4"}
NODES["lock-quarters"]["status"]["allocatable"] |= QUARTERS
NODES["lock-quarters"]["status"]["capacity"] |= QUARTERS
WHOLE = {"0.125": 1, "0.375": 3, "0.500": 4, "0.750": 6, "1.000": 8}
_POLICIES = {
    "default": {},
    "whole": {
        "fractions": {"0.125": 1, "0.25": 2, "0.500": 4, "1.000": 8, "2.0": 16, "3": 24, "0.2": 2, "0.95": 8}
    },
    "pooled": {"resources": {"mode": "pooled"}},
    "both": {"resources": {"prefer": ["mig", "per-gpu"]}, "fractions": WHOLE},
    "either": {"resources": {"mode": "pooled", "prefer": ["mig", "pooled"]}, "fractions": WHOLE},
    "late": {"resources": {"mode": "dra", "prefer": ["mig", "dra"]}, "fractions": WHOLE},
    "mig": {"resources": {"mode": "mig"}, "fractions": WHOLE, "memory": {"allowed": True}},
    "driver": {"limiter": "nvidia-driver"},
    "quarters": {"slicesPerGpu": 4},
    "open": {"limiter": "none"},
    "custom": {"limiter": "site"},
    "foreign": {"aliases": {"kai": True, "hami": True}},
    "apart": {"containers": "any-gpu"},
    "nics": {"allow": {"deviceClasses": ["rdma.example.com"]}},
    "image": {"limiter": "clearml-image"},
    "claimed": {
        "resources": {"mode": "dra"},
        "assume": {"gpusPerNode": 2, "gpuMemoryMiB": 81920},
        "fractions": {"0.125": 1, "0.2": 2, "0.500": 4, "0.750": 6, "2.0": 16},
        "memory": {"allowed": True},
    },
    "waiting": {"quotas": {"whenOverQuota": "wait"}},
}
_ALIKE = {"resources": {"mode": "per-gpu"}}
POLICIES = {
    name: {
        **_ALIKE,
        **({} if name == "default" else {"namespaces": [f"lock-{name}", f"forged-{name}"]}),
        **policy,
    }
    for name, policy in _POLICIES.items()
}
LIMITERS = {
    "site": {"env": {"SITE_SHARE": "{percent}"}, "modes": {"per-gpu": {"env": {"SITE_MIB": "{memory_mib}"}}}}
}
QUEUES = {
    "services": {"share": "none"},
    "trusted": {"namespaces": ["lock-queue"], "limiter": "none", "fractions": {"0.50": 4, "0.500": 4}},
}
UNSERVED = ("kube-system", "lock-excluded", "lock-unselected", "lock-not-selected")
TRUSTED = "lock-trusted"
"""A namespace that is not served either, whose pods may ask for slices all the same."""
DEVICES = "lock-devices"
"""A namespace whose unlabelled pods may take devices by annotations."""
OF_THE_CHART = yaml.safe_load((CHART / "values.yaml").read_text())["secondLock"]
"""The lock's values as the chart has them: those of its lists that tests extend keep what they have."""
VALUES = {
    # For mode dra; on no node.
    "agent": {"enabled": True, "offer": "dra", "nodeSelector": {"nobody": "has-this"}},
    "policies": POLICIES,
    "limiters": LIMITERS,
    "queues": QUEUES,
    "secondLock": {
        "uninjectedNamespaces": [TRUSTED],
        "deviceAnnotationNamespaces": [*OF_THE_CHART["deviceAnnotationNamespaces"], DEVICES],
    },
}
WEBHOOK = {
    "excludedNamespaces": ["lock-excluded", TRUSTED],
    "namespaceSelector": {
        "matchExpressions": [
            {"key": "unserved", "operator": "DoesNotExist"},
            {"key": "served", "operator": "NotIn", "values": ["no", "never"]},
        ]
    },
}
NAMESPACES = {
    "lock-queue": {},
    **{f"{where}-{name}": {} for name in POLICIES for where in ("lock", "forged")},
    "lock-excluded": {},
    TRUSTED: {},
    DEVICES: {},
    "lock-unselected": {"unserved": "yes"},
    "lock-not-selected": {"served": "no"},
}
"""Namespaces and their labels."""
OLD = "lock-old"
"""Namespace of a pod from before the install, and of labelled workloads whose pods are not."""
LABELLED = {LABEL: "0.500"}
KINDS = {
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "CronJob": "batch/v1",
}
"""Workloads by their API."""


def in_effect(api: Api) -> bool:
    takes_no_devices = not is_allowed(api, annotated_pod("nvidia.cdi.k8s.io"), "default")
    return decides(probe(api, OLD)) and lock_in_effect(api) and takes_no_devices


def lock_in_effect(api: Api) -> bool:
    """Whether the lock is: of its parts, the one about workloads comes and goes last."""
    return "ValidatingAdmissionPolicy" in api.refusal(workload("Deployment", LABELLED, {}), "default")


def is_allowed(api: Api, pod: Object, namespace: str) -> bool:
    return not api.refusal(pod, namespace)


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


def labelled_asking(resource: str) -> Object:
    pod = asking(resource)
    pod["metadata"]["labels"] = {LABEL: "0.125"}
    return pod


def annotated_pod(annotation: str, name: str = "unlabelled", **spec: object) -> Object:
    pod = unlabelled_pod(name, **spec)
    pod["metadata"]["annotations"] = {annotation: "nvidia.com/gpu=all"}
    return pod


def takes_devices(annotation: str) -> str:
    return (
        f"annotation {annotation} injects devices without a limit: use the label clearml-injector/fraction"
        " or a resource instead, or ask the admin to set secondLock.deviceAnnotationNamespaces"
    )


def large_pod(name: str) -> Object:
    """A pod of about as many containers, mounts and annotations as the webhook admits."""
    volumes = [{"name": f"volume-{n}", "emptyDir": {}} for n in range(40)]
    mounts = [{"name": f"volume-{n}", "mountPath": f"/mnt/volume-{n}"} for n in range(6)]
    pod = labelled_pod(name, "0.500", volumes=volumes, schedulingGates=[{"name": "example.com/wait"}])
    pod["metadata"]["annotations"] = {f"example.com/note-{n}": "x" * 200 for n in range(900)}
    task = {**pod["spec"]["containers"][0], "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    others = [{"name": f"c-{n}", "image": "example.com/other:1", "volumeMounts": mounts} for n in range(60)]
    inits = [{**container, "name": f"i-{n}"} for n, container in enumerate(others)]
    pod["spec"] |= {"containers": [task, *others], "initContainers": inits}
    return pod


def workload(kind: str, labels: Object, template_labels: Object) -> Object:
    """A workload with labels of its own and of its pods, of which it makes none."""
    selector = {"app": "task"}
    spec: Object = {
        "containers": [{"name": "task", "image": "example.com/task:1"}],
        "nodeSelector": {"no": "node"},
    }
    template = {"metadata": {"labels": {**selector, **template_labels}}, "spec": spec}
    made: Object = {"selector": {"matchLabels": selector}, "template": template}
    if kind == "CronJob":
        spec["restartPolicy"] = "Never"
        made = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}
    elif kind != "DaemonSet":
        made["replicas"] = 0
    metadata = {"name": "work", "labels": labels}
    return {"apiVersion": KINDS[kind], "kind": kind, "metadata": metadata, "spec": made}


def create_as_node(cluster: Cluster, pod: Object, namespace: str) -> Output:
    """Create a pod as the kubelet of a node does with the mirror of a static one."""
    node = [f"--as=system:node:{pod['spec']['nodeName']}", "--as-group=system:nodes"]
    # What a node may do is not in question.
    rights = ["--as-group=system:masters"]
    manifest = json.dumps(pod)
    return cluster.kubectl(
        "create", "--filename=-", f"--namespace={namespace}", *node, *rights, stdin=manifest
    )


@contextmanager
def refused(policy: str, message: str, by: str = "") -> Iterator[None]:
    """Expect that this part of the lock refuses, in exactly these words; `by` is the label that selects."""
    name = f"{RELEASE}-{policy}"
    with pytest.raises(ApiError) as error:
        yield
    _, found, text = str(error.value).partition(
        f"ValidatingAdmissionPolicy '{name}' with binding '{name}{by}' denied request: "
    )
    assert found, str(error.value)
    assert (error.value.code, text) == (403, message)
