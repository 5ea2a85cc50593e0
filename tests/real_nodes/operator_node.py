"""A node of the ten minutes' page: what admin and GPU operator do to it, and what its pods see."""

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from testbed.api import Object
from testbed.chart import CHART, RELEASE
from testbed.nodes.cluster import RealCluster
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.real_nodes.agent_pods import GPUS, NODE
from tests.real_nodes.installation import READY_S, VALUES, Installation
from tests.real_nodes.pods import LIMIT, WORK, cards, environment, inside

PAGE = CHART.parents[1] / "docs" / "getting-started" / "gpu-operator.md"
PLUGIN, CLIENT = "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.client"
SLICES = ("nvidia.com/gpu-0", "nvidia.com/gpu-1")
HELD = {"key": "clearml-injector.io/agent-not-ready", "effect": "NoSchedule"}
WHOLE = 8
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}


def of_page(policies: Mapping[str, Any] | None = None, **agent: Any) -> Mapping[str, Any]:
    """The page's values, for slices, with this test's images and no folder of the machine's own /etc."""
    [block] = re.findall(r"```yaml\n# values.yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    values = yaml.safe_load(block)
    changed = {"offer": "device-plugin", "cdiDirs": ["/run/gpu-node/cdi", "/var/run/cdi"], **agent}
    policies = policies or values["policies"]
    return {**values, **VALUES, "policies": policies, "agent": {**values["agent"], **changed}}


def set_label(cluster: RealCluster, label: str, value: str) -> None:
    cluster.api.patch("Node", NODE, {"metadata": {"labels": {label: value}}})


def offered(cluster: RealCluster) -> list[str | None]:
    """What the node offers of whole cards, and of slices of each."""
    found = cluster.api.get("Node", NODE)["status"]["allocatable"]
    return [found.get(name) for name in ("nvidia.com/gpu", *SLICES)]


def run(cluster: RealCluster, wanted: Object) -> str:
    """Create a pod, wait until it runs, and return what tells its container from a later one."""
    name = wanted["metadata"]["name"]
    cluster.api.create(wanted, WORK)
    return eventually(lambda: running(cluster, name), f"{name} runs", READY_S)


def running(cluster: RealCluster, name: str) -> str | None:
    """The id of a pod's container, where it runs."""
    [found] = cluster.api.get("Pod", name, WORK)["status"].get("containerStatuses") or [{}]
    return found.get("containerID") if "running" in found.get("state", {}) else None


def has_share(cluster: RealCluster, name: str, eighths: int) -> None:
    """See that a pod has one card, its limit, and the limiter; a whole card has no limit."""
    [card] = cards(cluster, name)
    if eighths == WHOLE:
        assert LIMIT not in environment(cluster, name)
        return
    assert environment(cluster, name)[LIMIT] == f"{GPUS[int(card[-1])].memory_mib * eighths // 8}m"
    assert inside(cluster, name, "cat", "/etc/ld.so.preload").strip() == "/usr/local/vgpu/libvgpu.so"


def libraries(cluster: RealCluster, name: str) -> set[str]:
    """Which versions of the driver's libraries are mounted into a pod."""
    return set(re.findall(r"/libcuda\.so\.(\d\S+) ", inside(cluster, name, "cat", "/proc/mounts")))


def gpu_node(cluster: RealCluster) -> Mapping[str, Any]:
    stored = cluster.kubectl("get", "gpunode", NODE, "--output=json")
    return json.loads(stored.stdout)["status"]


def taints(cluster: RealCluster) -> list[Object]:
    return cluster.api.get("Node", NODE)["spec"].get("taints", [])


def serve(installation: Installation, policies: Mapping[str, Any] | None = None, **agent: Any) -> None:
    """Install with other policies or values of the agent, and wait until the new one serves."""
    installation.helm.apply(of_page(policies, **agent))
    until_it_serves(installation.cluster)


def until_it_serves(cluster: RealCluster) -> None:
    eventually(lambda: rolled_out(cluster), "the agent of these values is ready", 200)
    eventually(lambda: offered(cluster)[1:] == ["8", "8"], "slices are offered", 100)


def rolled_out(cluster: RealCluster) -> bool:
    """Whether the agent's newest pods serve, and no others are left."""
    found = cluster.api.get("DaemonSet", f"{RELEASE}-agent", OWN_NAMESPACE, "apps/v1")
    status = found["status"]
    counts = [
        status.get(name, 0) for name in ("updatedNumberScheduled", "numberReady", "currentNumberScheduled")
    ]
    return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [1, 1, 1]


def ready_agents(installation: Installation) -> set[str]:
    """The containers of agents that serve."""
    found = [each["status"].get("containerStatuses") or [{}] for each in installation.objects("agent")]
    return {one["containerID"] for [one] in found if one.get("ready") and "running" in one["state"]}


def until_another_serves(installation: Installation, before: set[str]) -> None:
    """Wait until another agent serves: the node's status may be that of before for a while."""
    eventually(lambda: ready_agents(installation) - before, "another agent serves", 200)
    eventually(lambda: offered(installation.cluster)[1:] == ["8", "8"], "slices are offered", 60)


def discover_features(cluster: RealCluster) -> Mapping[str, str]:
    """Label the node with what NVIDIA's GPU feature discovery finds, and return that."""
    labels = cluster.nodes[NODE].agent.discover_features()
    cluster.api.patch("Node", NODE, {"metadata": {"labels": labels}})
    return labels


def is_let_in(cluster: RealCluster, wanted: Object) -> bool:
    return not cluster.api.refusal(wanted, WORK)


def each_slice_is_held_once(cluster: RealCluster) -> None:
    """See that no two running pods have one slice, by the file of the kubelet's device manager."""
    file = cluster.nodes[NODE].sandbox.folder / "kubelet" / "device-plugins" / "kubelet_internal_checkpoint"
    found = [pod for pod in cluster.api.list("Pod", WORK) if pod["status"].get("phase") == "Running"]
    uids = {pod["metadata"]["uid"] for pod in found}
    entries = json.loads(file.read_text())["Data"]["PodDeviceEntries"] or ()
    held = [
        each
        for entry in entries
        if entry["PodUID"] in uids and entry["ResourceName"] in SLICES
        for of_numa_node in entry["DeviceIDs"].values()
        for each in of_numa_node
    ]
    assert len(held) == len(set(held))
    assert len(held) == sum(count for (_, _, name), count in cluster.held_slices().items() if name in SLICES)
