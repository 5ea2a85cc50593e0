"""Mode dra with NVIDIA's own DRA driver: its cards, and the limit that the webhook writes into pods.

Its cluster is one of its own: a node whose GPUs only that driver offers.
"""

from collections.abc import Iterator

import pytest

from kube.dra import NVIDIA_DRIVER
from testbed.chart import Helm
from testbed.nodes.cluster import RealCluster
from testbed.nodes.stub_images import LIBRARY_TEXT
from testbed.nvidia.cards import Card
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.conftest import Say
from tests.real_nodes.agent_pods import NODE, agent_cluster
from tests.real_nodes.claimed_pods import API, ClaimedPods, consumed
from tests.real_nodes.installation import READY_S, VALUES, Installation
from tests.real_nodes.pods import WORK, environment, inside, waits

POLICY = {
    "resources": {"mode": "dra", "driver": NVIDIA_DRIVER},
    "memory": {"allowed": True},
    "fractions": {"1.000": 8, "0.875": 7, "0.500": 4, "0.125": 1},
}
CARDS = [
    Card("GPU-4a6fe8c5-1ae2-4f43-9d0b-9c3c5e6f0d01", "NVIDIA A100-SXM4-40GB"),
    Card("GPU-b2b6c1de-77a1-4c0e-8f25-0d9c1c3f7e02", "NVIDIA A100-SXM4-80GB", minor=1, memory_mib=81920),
]
"""The driver takes no other form of UUIDs."""
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
SIZES = {"/dev/nvidia0": 40960, "/dev/nvidia1": 81920}


@pytest.fixture(scope="module")
def cluster(possible, image, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node whose two cards NVIDIA's driver offers, with the DeviceClass of its chart."""
    with agent_cluster(say, pytestconfig, CARDS, image, by_dra=True) as cluster:
        cluster.create_namespace(WORK)
        is_card = f"device.driver == '{NVIDIA_DRIVER}' && device.attributes['{NVIDIA_DRIVER}'].type == 'gpu'"
        spec = {"selectors": [{"cel": {"expression": is_card}}], "extendedResourceName": "nvidia.com/gpu"}
        metadata = {"name": NVIDIA_DRIVER}
        cluster.api.create({"apiVersion": API, "kind": "DeviceClass", "metadata": metadata, "spec": spec})
        place = cluster.nodes[NODE].place
        driver = cluster.nodes[NODE].agent.start_nvidia_dra(NODE, place.kubeconfig)
        yield cluster
        driver.stop()


@pytest.fixture(scope="module")
def installation(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The chart without its agent, on a node of published cards."""
    eventually(lambda: len(cluster.dra_devices(NODE, NVIDIA_DRIVER)) == len(CARDS), "both cards", READY_S)
    cluster.create_namespace(OWN_NAMESPACE)
    installation = Installation(cluster, Helm(cluster, tmp_path_factory.mktemp("helm")))
    installation.install({**VALUES, "policies": {"default": POLICY}})
    return installation


@pytest.fixture
def pods(installation: Installation, cluster: RealCluster) -> Iterator[ClaimedPods]:
    """A way to create pods that are gone, with their claims, when the test ends."""
    pods = ClaimedPods(cluster)
    yield pods
    pods.delete_all()


def test_half_a_card_is_claimed_of_one_size_and_the_limit_is_in_the_pod(cluster, pods):
    pods.run("half", "0.500")
    size = SIZES[pods.card("half")]
    assert consumed(cluster) == [{"memory": f"{size // 2048}Gi"}]
    assert environment(cluster, "half")[LIMIT] == f"{size // 2}m"
    preload = inside(cluster, "half", "sh", "-c", "cat $LD_PRELOAD")
    assert preload == LIBRARY_TEXT.decode()


def test_shares_of_one_size_fill_one_card_and_the_next_pod_waits(cluster, pods):
    for name in ("first", "second"):
        pods.run(name, "0.500")
    assert pods.card("first") == pods.card("second")
    pods.create("third", "0.125")
    eventually(lambda: waits(cluster, "third"), "the third waits")
    pods.delete("first")
    pods.until_running("third")


def test_a_whole_card_has_no_limit_and_no_other_pod(cluster, pods):
    pods.run("whole", "1.000")
    pods.run("other", memory="1Gi")
    assert LIMIT not in environment(cluster, "whole")
    assert pods.card("whole") != pods.card("other")
