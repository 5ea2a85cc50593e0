"""The ten minutes' page, walked as it is written, and the layouts of nodes that the agent meets.

NVIDIA's device plugin runs as the operator's DaemonSet has it, over NVIDIA's toolkit and a driver where the
operator has them. The test does what the operator does with labels. Its cluster is one of its own.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from testbed.api import Object
from testbed.chart import CHART, RELEASE, Helm
from testbed.nodes.agent import AgentOnNode
from testbed.nodes.cluster import RealCluster
from testbed.nodes.node import SOCKET
from testbed.nodes.stub_images import WORKLOAD
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE, probe, refuses
from tests.real_nodes.agent_pods import GPUS, NODE, agent_cluster
from tests.real_nodes.conftest import WORK, Say
from tests.real_nodes.installation import COMPONENTS, READY_S, VALUES, Installation

PAGE = CHART.parents[1] / "docs" / "getting-started" / "gpu-operator.md"
OPERATOR = "gpu-operator"
PLUGIN, CLIENT = "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.client"
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0"
SLICES = ("nvidia.com/gpu-0", "nvidia.com/gpu-1")
SOCKETS = {"containerd": "/run/containerd/containerd.sock", "k3s": "/run/k3s/containerd/containerd.sock"}


@pytest.fixture(scope="module")
def cluster(possible, image, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node with the GPU operator's driver, toolkit and device plugin, and its labels."""
    with agent_cluster(say, pytestconfig, GPUS, image) as cluster:
        for namespace in (WORK, OPERATOR, OWN_NAMESPACE):
            cluster.create_namespace(namespace)
        show_sockets(cluster)
        set_label(cluster, PLUGIN, "true")
        set_label(cluster, CLIENT, "true")
        runtime_class = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
        }
        cluster.api.create({**runtime_class, "handler": "nvidia"})
        cluster.api.create(device_plugin(cluster.nodes[NODE].agent), OPERATOR)
        yield cluster


@pytest.fixture(scope="module")
def installation(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The page's file, installed."""
    installation = Installation(cluster, Helm(cluster, tmp_path_factory.mktemp("helm")))
    eventually(lambda: offered(cluster) == ["2", None, None], "NVIDIA's plugin offers both cards", 150)
    installation.helm.apply(of_page())
    # No labelled pod is let in yet: no node offers slices.
    for component in COMPONENTS:
        eventually(lambda c=component: installation.rolled_out(c), f"{component} is rolled out", READY_S)
    return installation


def of_page(**agent: Any) -> Mapping[str, Any]:
    """The page's values, with this test's images, and without a folder of the machine's own /etc."""
    [block] = re.findall(r"```yaml\n# values.yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    values = yaml.safe_load(block)
    changed = {"cdiDirs": ["/run/gpu-node/cdi", "/var/run/cdi"], **agent}
    return {**values, **VALUES, "agent": {**values["agent"], **changed}}


def show_sockets(cluster: RealCluster) -> None:
    """Have containerd's socket where most nodes have it, and where k3s has it."""
    sandbox = cluster.nodes[NODE].sandbox
    for place in SOCKETS.values():
        sandbox.check("mkdir", "-p", place.rpartition("/")[0])
        sandbox.check("touch", place)
        sandbox.check("mount", "--bind", SOCKET, place)


def device_plugin(agent: AgentOnNode) -> Object:
    """NVIDIA's device plugin as a DaemonSet on the nodes that the operator's label gives it."""
    container = {
        "name": "nvidia-device-plugin",
        "image": WORKLOAD,
        "imagePullPolicy": "Never",
        "command": agent.run_device_plugin(),
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "host", "mountPath": "/host", "mountPropagation": "HostToContainer"}],
    }
    template = {
        "metadata": {"labels": {"app": "nvidia-device-plugin-daemonset"}},
        "spec": {
            "nodeSelector": {PLUGIN: "true"},
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin-daemonset"},
        "spec": {"selector": {"matchLabels": template["metadata"]["labels"]}, "template": template},
    }


def set_label(cluster: RealCluster, label: str, value: str) -> None:
    """Label the node, as kubectl does."""
    cluster.api.patch("Node", NODE, {"metadata": {"labels": {label: value}}})


def offered(cluster: RealCluster) -> list[str | None]:
    """What the node offers of whole cards, and of slices of each."""
    found = cluster.api.get("Node", NODE)["status"]["allocatable"]
    return [found.get(name) for name in ("nvidia.com/gpu", *SLICES)]


def pod(name: str, labels: Mapping[str, str], **resources: str) -> Object:
    """A pod of one container that sleeps."""
    container = {"name": "main", "image": WORKLOAD, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    limits = {"limits": {f"nvidia.com/{key}": count for key, count in resources.items()}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [{**container, "resources": limits}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": spec,
    }


def share(name: str, fraction: str) -> Object:
    return pod(name, {"clearml-injector/fraction": fraction})


def run(cluster: RealCluster, wanted: Object) -> str:
    """Create a pod, wait until it runs, and return what tells its container from a later one."""
    name = wanted["metadata"]["name"]
    cluster.api.create(wanted, WORK)
    return eventually(lambda: running(cluster, name), f"{name} runs", 120)


def running(cluster: RealCluster, name: str) -> str | None:
    """The id of a pod's container, where it runs."""
    [found] = cluster.api.get("Pod", name, WORK)["status"].get("containerStatuses") or [{}]
    return found.get("containerID") if "running" in found.get("state", {}) else None


def inside(cluster: RealCluster, name: str, *command: str) -> str:
    """Run a command in a pod."""
    ended = cluster.kubectl("exec", f"--namespace={WORK}", name, "--", *command)
    assert ended.code == 0, ended.stderr
    return ended.stdout


def cards(cluster: RealCluster, name: str) -> list[str]:
    """The device nodes of cards that a pod has."""
    return inside(cluster, name, "sh", "-c", "ls /dev/nvidia[0-9]").split()


def limit(cluster: RealCluster, name: str) -> str | None:
    """The limit in the environment of a pod's first process."""
    variables = inside(cluster, name, "cat", "/proc/1/environ").split("\0")
    return dict(each.split("=", 1) for each in variables if each).get(LIMIT)


def has_share(cluster: RealCluster, name: str, eighths: int) -> None:
    """See that a pod has one card, its limit, and the limiter."""
    [card] = cards(cluster, name)
    assert limit(cluster, name) == f"{GPUS[int(card[-1])].memory_mib * eighths // 8}m"
    assert inside(cluster, name, "cat", "/etc/ld.so.preload").strip() == "/usr/local/vgpu/libvgpu.so"


def libraries(cluster: RealCluster, name: str) -> set[str]:
    """Which versions of the driver's libraries are mounted into a pod."""
    return set(re.findall(r"/libcuda\.so\.(\d\S+) ", inside(cluster, name, "cat", "/proc/mounts")))


def gpu_node(cluster: RealCluster) -> Mapping[str, Any]:
    """What the agent says of the node."""
    stored = cluster.kubectl("get", "gpunode", NODE, "--output=json")
    return json.loads(stored.stdout)["status"]


def taints(cluster: RealCluster) -> list[Object]:
    return cluster.api.get("Node", NODE)["spec"].get("taints", [])


def test_the_walk_of_the_page(installation, cluster):
    # Nothing changed yet: NVIDIA's plugin serves, and a pod of before holds a card.
    whole = run(cluster, pod("whole", {}, gpu="1"))
    [of_whole] = cards(cluster, "whole")
    assert (offered(cluster), installation.objects("agent"), taints(cluster)) == (["2", None, None], [], [])

    set_label(cluster, PLUGIN, "false")
    held = int(of_whole[-1])
    wanted = ["0", *("0" if index == held else "8" for index in range(len(GPUS)))]
    eventually(lambda: offered(cluster) == wanted, "slices of the card that nobody holds are offered", 150)
    assert running(cluster, "whole") == whole
    eventually(lambda: "why" in gpu_node(cluster)["gpus"][held], "the agent says why", 60)
    assert gpu_node(cluster)["gpus"][held]["why"].startswith(f"pod {WORK}/whole holds it as nvidia.com/gpu")

    eventually(lambda: not refuses(probe(cluster.api, WORK)), "labelled pods are let in", 60)
    first = run(cluster, share("first", "0.125"))
    has_share(cluster, "first", 1)
    assert cards(cluster, "first") != [of_whole]

    cluster.api.delete("Pod", "whole", WORK)
    eventually(lambda: offered(cluster)[1:] == ["8", "8"], "the other card is offered, too", 60)

    set_label(cluster, PLUGIN, "true")
    eventually(lambda: offered(cluster) == ["2", "0", "0"], "NVIDIA's plugin is back", 150)
    assert installation.objects("agent") == []
    assert running(cluster, "first") == first
    has_share(cluster, "first", 1)
    assert taints(cluster) == []

    set_label(cluster, PLUGIN, "false")
    eventually(lambda: offered(cluster) == ["0", "8", "8"], "the agent is back", 150)
    assert running(cluster, "first") == first
    cluster.api.delete("Pod", "first", WORK)


def serve(installation: Installation, **agent: Any) -> None:
    """Install with other values of the agent, and wait until the new one serves."""
    installation.helm.apply(of_page(**agent))
    eventually(lambda: rolled_out(installation.cluster), "the agent of these values is ready", 150)
    eventually(lambda: offered(installation.cluster)[1:] == ["8", "8"], "slices are offered", 60)


def rolled_out(cluster: RealCluster) -> bool:
    """Whether the agent's newest pods serve, and no others are left."""
    found = cluster.api.get("DaemonSet", f"{RELEASE}-agent", OWN_NAMESPACE, "apps/v1")
    status = found["status"]
    counts = [
        status.get(name, 0) for name in ("updatedNumberScheduled", "numberReady", "currentNumberScheduled")
    ]
    return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [1, 1, 1]


LAYOUTS = {
    "k3s": {"runtimeSocket": SOCKETS["k3s"]},
    "operator with its NRI plugin, no runtime class": {"runtimeClassName": "", "privileged": True},
    "driver of the node's own": {"driverRoot": "/"},
    "driver and toolkit of the node's own": {
        "driverRoot": "/",
        "toolkitDir": "/usr/bin",
        "runtimeClassName": "",
    },
}


@pytest.mark.parametrize("agent", LAYOUTS.values(), ids=LAYOUTS)
def test_a_share_on_a_node_of_another_layout(installation, cluster, agent):
    set_label(cluster, PLUGIN, "false")
    if agent.get("driverRoot") == "/":
        cluster.nodes[NODE].agent.install_on_host()
    serve(installation, **agent)
    run(cluster, share("laid-out", "0.250"))
    has_share(cluster, "laid-out", 2)
    cluster.api.delete("Pod", "laid-out", WORK)


def ready_agents(installation: Installation) -> set[str]:
    """The containers of agents that serve."""
    found = [each["status"].get("containerStatuses") or [{}] for each in installation.objects("agent")]
    return {one["containerID"] for [one] in found if one.get("ready") and "running" in one["state"]}


def until_another_serves(installation: Installation, before: set[str]) -> None:
    """Wait until another agent serves: the node's status may be that of before for a while."""
    eventually(lambda: ready_agents(installation) - before, "another agent serves", 200)
    eventually(lambda: offered(installation.cluster)[1:] == ["8", "8"], "slices are offered", 60)


def test_an_upgrade_of_the_driver_and_a_reboot(installation, cluster):
    set_label(cluster, PLUGIN, "false")
    serve(installation)
    before = run(cluster, share("before", "0.125"))
    assert libraries(cluster, "before") == {"595.71.05"}

    # As the operator's driver manager does it.
    of_before = ready_agents(installation)
    set_label(cluster, CLIENT, "paused-for-driver-upgrade")
    eventually(lambda: not installation.objects("agent"), "the agent's pod is gone", 90)
    cluster.nodes[NODE].agent.upgrade_driver("615.10.02")
    set_label(cluster, CLIENT, "true")
    until_another_serves(installation, of_before)
    assert running(cluster, "before") == before

    # What starts again gets the files of the new driver, under the name that it was given.
    cluster.nodes[NODE].ctr("tasks", "kill", "--signal=SIGKILL", before.removeprefix("containerd://"))
    eventually(lambda: running(cluster, "before") not in {None, before}, "it starts again", 90)
    assert libraries(cluster, "before") == {"615.10.02"}
    has_share(cluster, "before", 1)

    # The folder of CDI specifications is empty then.
    of_before = ready_agents(installation)
    cluster.reboot(NODE, agent=False)
    show_sockets(cluster)
    until_another_serves(installation, of_before)
    eventually(lambda: not refuses(probe(cluster.api, WORK)), "labelled pods are let in", 150)
    run(cluster, share("after", "0.125"))
    has_share(cluster, "after", 1)
    assert libraries(cluster, "after") == {"615.10.02"}
