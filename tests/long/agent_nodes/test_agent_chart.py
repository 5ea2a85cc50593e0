"""The node agent as the chart runs it: a labelled pod's limit, end to end, on cards of 40 and of 80 GB.

Its cluster is one of its own: a node without any other device plugin.
"""

import json
from collections.abc import Iterator

import pytest

from testbed.api import Object
from testbed.chart import Helm
from testbed.nodes.agent import chart_values
from testbed.nodes.cluster import RealCluster
from testbed.nodes.node import SOCKET
from testbed.nodes.stub_images import LIBRARY_TEXT
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.conftest import Say
from tests.real_nodes.agent_pods import GPUS, NODE, agent_cluster
from tests.real_nodes.installation import READY_S, VALUES, Installation
from tests.real_nodes.pods import LIMIT, WORK, environment, inside, labelled, phase, waits

HELD = "clearml-injector.io/agent-not-ready:NoSchedule"


@pytest.fixture(scope="module")
def cluster(possible, image, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node that offers no GPU, on which the agent would find two."""
    with agent_cluster(say, pytestconfig, GPUS, image) as cluster:
        cluster.create_namespace(WORK)
        yield cluster


@pytest.fixture(scope="module")
def installation(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The chart with its agent, which has registered both GPUs."""
    cluster.create_namespace(OWN_NAMESPACE)
    installation = Installation(cluster, Helm(cluster, tmp_path_factory.mktemp("helm")))
    installation.helm.apply({**VALUES, **chart_values(SOCKET)})
    eventually(lambda: cluster.is_ready(NODE), "the agent offers both GPUs", READY_S)
    installation.until_served()
    return installation


def test_a_labelled_pod_has_the_agents_limit_though_it_sets_the_variable_itself(installation, cluster):
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more"}, "data": {LIMIT: "0m"}}
    cluster.api.create(config, WORK)
    more = {"envFrom": [{"configMapRef": {"name": "more"}}], "env": [{"name": LIMIT, "value": "999999m"}]}
    names = ["first", "second"]
    for name in names:
        # Seven eighths: one on each card.
        cluster.api.create(labelled(name, "0.875", **more), WORK)
    found = {}
    for name in names:
        eventually(lambda name=name: phase(cluster, name) == "Running", f"{name} runs")
        stored = cluster.api.get("Pod", name, WORK)
        notes = stored["metadata"]["annotations"]
        assert "clearml-injector/memory-mib" not in notes
        assert "initContainers" not in stored["spec"]
        found[int(notes["clearml-injector/gpu-index"])] = environment(cluster, name)[LIMIT]
    assert found == {0: f"{40960 * 7 // 8}m", 1: f"{81920 * 7 // 8}m"}


def test_its_library_is_the_one_that_the_limiters_image_holds(installation, cluster):
    assert inside(cluster, "first", "cat", "/usr/local/vgpu/libvgpu.so") == LIBRARY_TEXT.decode()
    assert inside(cluster, "first", "cat", "/etc/ld.so.preload").strip() == "/usr/local/vgpu/libvgpu.so"
    mounts = inside(cluster, "first", "mount")
    [mounted] = [line for line in mounts.splitlines() if " /usr/local/vgpu " in line]
    assert "(ro," in mounted


def test_a_new_agent_takes_over_while_pods_run(installation, cluster):
    [before] = installation.objects("agent")
    cluster.api.delete("Pod", before["metadata"]["name"], OWN_NAMESPACE)
    eventually(lambda: successor(installation, before), "another agent is ready")
    eventually(lambda: cluster.is_ready(NODE), "the agent offers both GPUs again")
    assert environment(cluster, "first")[LIMIT].endswith("m")
    cluster.api.create(labelled("third", "0.125"), WORK)
    eventually(lambda: phase(cluster, "third") == "Running", "third runs")
    assert environment(cluster, "third")[LIMIT] in {"5120m", "10240m"}


def test_the_agents_pod_has_no_capability(installation, cluster):
    [pod] = installation.objects("agent")
    status = installation.exec(pod["metadata"]["name"], "cat", "/proc/1/status").stdout
    assert "CapEff:\t0000000000000000" in status


def test_it_tells_the_cards_of_its_node_and_the_ledger_shows_them(installation, cluster):
    cards = [gpu.memory_mib for gpu in GPUS]

    def reported() -> list[int]:
        stored = cluster.kubectl("get", "gpunode", NODE, "--output=json")
        return [gpu["memoryMiB"] for gpu in json.loads(stored.stdout)["status"]["gpus"]]

    def shown() -> list[int | None]:
        stored = cluster.kubectl("get", "gpuledger", NODE, "--output=json")
        return [gpu.get("memoryMiB") for gpu in json.loads(stored.stdout)["status"]["gpus"]]

    assert reported() == cards
    eventually(lambda: shown() == cards, "the GpuLedger shows the cards")


def test_a_node_is_held_while_its_agent_does_not_serve_and_pods_run_once_it_does(installation, cluster):
    values = {**VALUES, **chart_values(SOCKET)}
    unknown = {**values, "agent": {**values["agent"], "extraArgs": ["--runtime-file=/nonexistent"]}}
    # Room on both cards: the index is chosen while the node offers nothing of either.
    cluster.api.delete("Pod", "third", WORK)
    installation.helm.apply(unknown)
    eventually(lambda: HELD in taints(cluster), "the node is held", READY_S)
    stored = cluster.kubectl("get", "gpunode", NODE, "--output=json")
    assert "the container runtime was not asked" in json.loads(stored.stdout)["status"]["missing"]
    cluster.api.create(labelled("fourth", "0.125"), WORK)
    eventually(lambda: waits(cluster, "fourth"), "fourth waits")
    installation.helm.apply(values)
    eventually(lambda: HELD not in taints(cluster), "the node is let go", READY_S)
    eventually(lambda: phase(cluster, "fourth") == "Running", "fourth runs")
    assert environment(cluster, "fourth")[LIMIT] in {"5120m", "10240m"}
    assert phase(cluster, "first") == "Running"


def taints(cluster: RealCluster) -> list[str]:
    """Those of the node, as kubectl writes them."""
    found = cluster.api.get("Node", NODE)["spec"].get("taints", [])
    return [f"{each['key']}:{each['effect']}" for each in found]


def successor(installation: Installation, before: Object) -> bool:
    """Whether another pod of the agent is ready."""
    return any(
        pod["metadata"]["uid"] != before["metadata"]["uid"]
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
        for pod in installation.objects("agent")
    )
