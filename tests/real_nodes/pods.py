"""Pods of the namespace for tasks: written as users write them, and what is seen of them and inside."""

from collections.abc import Mapping

from testbed.api import Object
from testbed.nodes.cluster import RealCluster
from testbed.nodes.stub_images import WORKLOAD
from testbed.registration import LABEL

WORK = "work"
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0"


def pod(name: str, labels: Mapping[str, str], **container: object) -> Object:
    """A pod of one container that sleeps, with more fields of the container."""
    main = {"name": "main", "image": WORKLOAD, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{**main, **container}]},
    }


def labelled(name: str, fraction: str, **container: object) -> Object:
    return pod(name, {LABEL: fraction}, **container)


def deployment(template: Object, replicas: int = 1) -> Object:
    """A Deployment of such pods, named like them."""
    name = {"app": template["metadata"]["name"]}
    labels = {**template["metadata"]["labels"], **name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": name},
        "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name["app"]}, "spec": spec}


def phase(cluster: RealCluster, name: str) -> str | None:
    return cluster.api.get("Pod", name, WORK)["status"].get("phase")


def waits(cluster: RealCluster, name: str) -> bool:
    """Whether the scheduler found no node for a pod."""
    conditions = cluster.api.get("Pod", name, WORK)["status"].get("conditions", [])
    return any((each["type"], each.get("reason")) == ("PodScheduled", "Unschedulable") for each in conditions)


def inside(cluster: RealCluster, name: str, *command: str, container: str = "", namespace: str = WORK) -> str:
    """Run a command in a pod's container, the first if none is named, and return what it prints."""
    named = [f"--container={container}"] if container else []
    ended = cluster.kubectl("exec", f"--namespace={namespace}", name, *named, "--", *command)
    assert ended.code == 0, ended.stderr
    return ended.stdout


def environment(
    cluster: RealCluster, name: str, *, container: str = "", namespace: str = WORK
) -> dict[str, str]:
    text = inside(cluster, name, "cat", "/proc/1/environ", container=container, namespace=namespace)
    return dict(line.split("=", 1) for line in text.split("\0") if line)


def cards(cluster: RealCluster, name: str) -> list[str]:
    return inside(cluster, name, "sh", "-c", "ls /dev/nvidia[0-9]").split()
