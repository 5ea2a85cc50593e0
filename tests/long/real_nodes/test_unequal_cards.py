"""Cards of 40 and of 80 GB on one node whose labels speak of the first: pods get the cards that they name.

Its cluster is one of its own: a node whose GPUs only the chart's agent offers.
"""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from cli.app import app
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from testbed.api import ApiError, Object
from testbed.chart import Helm
from testbed.nodes.agent import chart_values
from testbed.nodes.cluster import RealCluster
from testbed.nodes.node import SOCKET
from testbed.nvidia.cards import Card
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.conftest import Say
from tests.real_nodes.agent_pods import agent_cluster
from tests.real_nodes.conftest import WORK
from tests.real_nodes.installation import READY_S, VALUES, Installation
from tests.real_nodes.test_agent_chart import LIMIT, NODE, environment, labelled, phase

SMALL, LARGE = "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"
GPUS = [
    Card("GPU-aaaaaaaa-0000", SMALL),
    Card("GPU-bbbbbbbb-1111", LARGE, minor=1, memory_mib=81920),
    Card("GPU-cccccccc-2222", LARGE, minor=2, memory_mib=81920),
]


@pytest.fixture(scope="module")
def cluster(possible, image, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node whose labels call all of its GPUs what the first is."""
    with agent_cluster(say, pytestconfig, GPUS, image) as cluster:
        cluster.create_namespace(WORK)
        labels = {GPU_MEMORY_LABEL: "40960", GPU_PRODUCT_LABEL: SMALL.replace(" ", "-")}
        cluster.api.patch("Node", NODE, {"metadata": {"labels": labels}})
        yield cluster


@pytest.fixture(scope="module")
def installation(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The chart with its agent, of which the controller knows the cards."""
    cluster.create_namespace(OWN_NAMESPACE)
    installation = Installation(cluster, Helm(cluster, tmp_path_factory.mktemp("helm")))
    installation.helm.apply({**VALUES, **chart_values(SOCKET)})
    eventually(lambda: cluster.is_ready(NODE), "the agent offers its GPUs", READY_S)
    installation.until_served()
    eventually(lambda: "of 81920 MiB" in shown(cluster), "the ledger shows the cards")
    return installation


@pytest.fixture
def pods(installation: Installation, cluster: RealCluster) -> Iterator["Pods"]:
    """A way to create pods that are gone when the test ends."""
    pods = Pods(cluster)
    yield pods
    for name in pods.names:
        cluster.api.delete("Pod", name, WORK)
    eventually(lambda: not cluster.nodes[NODE].held_slices(), "no slice is held")


class Pods:
    """Labelled pods of a test."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self.names: list[str] = []

    def create(self, name: str, fraction: str, **asked: str) -> Object:
        """Create a pod that says something more of its GPUs, and return what is stored of it."""
        pod = labelled(name, fraction)
        pod["metadata"]["annotations"] = {
            f"clearml-injector/{key.replace('_', '-')}": text for key, text in asked.items()
        }
        made = self._cluster.api.create(pod, WORK)
        self.names.append(name)
        return made

    def run(self, name: str, fraction: str, **asked: str) -> tuple[str, dict[str, str]]:
        """Create a pod, wait until it runs, and return its indices and its variables."""
        made = self.create(name, fraction, **asked)
        eventually(lambda: phase(self._cluster, name) == "Running", f"{name} runs")
        index = made["metadata"]["annotations"].get("clearml-injector/gpu-index", "")
        return index, environment(self._cluster, name)


def shown(cluster: RealCluster) -> str:
    """What `fraction-injector ledger` prints."""
    return CliRunner().invoke(app, ["ledger", "--kubeconfig", str(cluster.kubeconfig)]).output


def test_the_ledger_shows_the_mib_of_each_card_that_is_not_as_the_label_says(installation, cluster):
    def are_large() -> list[bool]:
        rows = [" ".join(row.split()[1:5]) for row in shown(cluster).splitlines() if row.startswith(NODE)]
        return [row.startswith(("1 of 81920 MiB", "2 of 81920 MiB")) for row in rows]

    # The GpuLedger follows the agent's report.
    eventually(lambda: are_large() == [False, True, True], "the cards' own MiB are shown", READY_S)


def test_a_model_and_a_least_memory_are_those_of_the_card_and_its_limit_is_too(pods):
    for name, asked in (("model", {"gpu_model": "A100-80"}), ("least", {"min_gpu_memory": "60Gi"})):
        index, variables = pods.run(name, "0.500", **asked)
        assert index in {"1", "2"}
        assert variables[LIMIT] == "40960m"
    index, variables = pods.run("small", "0.500", gpu_model="A100-40")
    assert (index, variables[LIMIT]) == ("0", "20480m")


def test_a_model_that_no_card_is_of_is_denied_with_those_that_there_are(pods):
    with pytest.raises(ApiError) as denied:
        pods.create("none", "0.500", gpu_model="H100")
    assert LARGE.replace(" ", "-") in str(denied.value)


def test_two_gpus_are_equal_ones_so_that_the_pod_starts(pods):
    index, variables = pods.run("two", "0.250", gpus="2")
    assert index == "1,2"
    assert variables[LIMIT] == variables["CUDA_DEVICE_MEMORY_LIMIT_1"] == "20480m"


def test_three_gpus_are_denied_as_no_three_are_equal(pods):
    with pytest.raises(ApiError) as denied:
        pods.create("three", "0.250", gpus="3")
    assert "fewer than 3 equal GPUs" in str(denied.value)


def test_in_a_pool_no_share_spans_cards(installation, cluster, pods):
    values = chart_values(SOCKET)
    pooled = {"default": {**values["policies"]["default"], "resources": {"mode": "pooled"}}}
    installation.helm.apply({**VALUES, **values, "policies": pooled})
    eventually(lambda: offered(cluster) == "24", "the agent offers a pool", READY_S)
    installation.until_served()
    eventually(lambda: asks_the_pool(cluster), "pods get slices of the pool", READY_S)
    for name in ("first", "second", "third"):
        pods.run(name, "0.625")
    # Nine are free, three of each card: half a card is there only in pieces.
    with pytest.raises(ApiError) as denied:
        pods.create("across", "0.500")
    assert "no GPU has 4 free slices" in str(denied.value)
    pods.run("fits", "0.375")
    cluster.api.delete("Pod", "first", WORK)
    pods.names.remove("first")
    eventually(lambda: held_by_agent(cluster) in ([3, 5, 5], [0, 5, 8]), "the agent tells of it")
    pods.run("half", "0.500")


def offered(cluster: RealCluster) -> str | None:
    """Slices of the node's pool."""
    return cluster.api.get("Node", NODE)["status"]["allocatable"].get("nvidia.com/gpu")


def asks_the_pool(cluster: RealCluster) -> bool:
    """Whether a pod that is made now gets slices of the pool."""
    try:
        made = cluster.api.create(labelled("asked", "0.625"), WORK, dry_run=True)
    except ApiError:
        return False
    return "nvidia.com/gpu" in made["spec"]["containers"][0]["resources"]["limits"]


def held_by_agent(cluster: RealCluster) -> list[int]:
    """Slices that containers hold of each card, as the GpuNode says, the fewest first."""
    stored = cluster.api.get("GpuNode", NODE, api="clearml-injector.io/v1alpha1")
    return sorted(gpu.get("heldSlices", 0) for gpu in stored["status"]["gpus"])
