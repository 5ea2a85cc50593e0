"""The agent as a DRA driver on a real kubelet and containerd: claims by hand, and what containers get.

Its cluster is one of its own: a node whose GPUs the agent offers by DRA, and no webhook.
"""

from collections.abc import Iterator

import pytest

from kube.dra import CLAIM_NAME, DRIVER, REQUEST_NAME, SHARES_OF_CARD
from testbed.nodes.cluster import RealCluster
from testbed.process import eventually
from tests.conftest import Say
from tests.long.agent_nodes.agent_node import kill_main, restarts, running_again
from tests.real_nodes.agent_pods import GPUS, NODE, SMALL, Pods, agent_cluster, container

API = "resource.k8s.io/v1"


@pytest.fixture(scope="module")
def cluster(possible, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node whose two GPUs, of 40 and 80 GB, the agent offers by DRA."""
    with agent_cluster(say, pytestconfig, by_dra=True) as cluster:
        device_class = {
            "apiVersion": API,
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
        }
        cluster.api.create(device_class)
        yield cluster


@pytest.fixture
def pods(cluster: RealCluster) -> Iterator[Pods]:
    """A way to create pods that are gone, with their claims, when the test ends."""
    pods = Pods(cluster)
    yield pods
    pods.delete_all()
    eventually(lambda: not prepared(cluster), "nothing is prepared")
    eventually(lambda: not claims(cluster), "no claim is left")


def prepared(cluster):
    """The CDI files of claims on the node."""
    return sorted((cluster.nodes[NODE].sandbox.folder / "cdi").glob("clearml-injector.io-claim-*.json"))


def claims(cluster):
    return cluster.api.list("ResourceClaim", "default", API)


def of_amount(cluster, mib):
    """The pod's part of a claim for so many MiB of whatever GPU, or for a whole one."""
    asked, config = {"deviceClassName": DRIVER}, []
    if mib:
        share = -(-mib * SHARES_OF_CARD // GPUS[SMALL].memory_mib)
        asked["capacity"] = {"requests": {"share": str(share)}}
        parameters = {"apiVersion": f"{DRIVER}/v1", "kind": "GpuMemory", "memoryMiB": mib}
        config = [{"requests": [REQUEST_NAME], "opaque": {"driver": DRIVER, "parameters": parameters}}]
    devices = {"requests": [{"name": REQUEST_NAME, "exactly": asked}], "config": config}
    made = cluster.api.create(
        {
            "apiVersion": API,
            "kind": "ResourceClaimTemplate",
            "metadata": {"generateName": "amount-"},
            "spec": {"spec": {"devices": devices}},
        },
        "default",
    )
    return {"resourceClaims": [{"name": CLAIM_NAME, "resourceClaimTemplateName": made["metadata"]["name"]}]}


def user():
    return {**container(), "resources": {"claims": [{"name": CLAIM_NAME}]}}


def limit(pods, name):
    return pods.environment(name).get("CUDA_DEVICE_MEMORY_LIMIT_0")


def until_offered(cluster):
    """Wait until both cards are offered without a taint."""

    def offered():
        return {name for name, device in cluster.dra_devices(NODE).items() if not device.get("taints")}

    eventually(lambda: offered() == {"gpu-0", "gpu-1"}, "both cards are offered")


def test_a_claim_without_an_amount_is_a_whole_card_without_a_limit(cluster, pods):
    pods.run("whole", user(), **of_amount(cluster, None))
    assert limit(pods, "whole") is None
    assert pods.inside("whole", "sh", "-c", "ls /dev/nvidia[0-9]").split() == ["/dev/nvidia0"]
    pods.run("next", user(), **of_amount(cluster, 1024))
    assert pods.inside("next", "sh", "-c", "ls /dev/nvidia[0-9]").split() == ["/dev/nvidia1"]


def test_a_late_driver_lets_pods_wait_and_those_that_run_stay(cluster, pods):
    agent = cluster.nodes[NODE].agent
    pods.run("before", user(), **of_amount(cluster, 2048))
    agent.kill()
    try:
        pods.create("late", user(), **of_amount(cluster, 3072))
        waits = eventually(
            lambda: cluster.api.events("default", "late", "FailedPrepareDynamicResources"), "waits"
        )
        assert waits
        assert pods.phase("late") == "Pending"
    finally:
        agent.start()
    pods.until_running("late")
    assert limit(pods, "late") == "3072m"
    assert restarts(pods, "before") == 0
    assert limit(pods, "before") == "2048m"


def test_a_container_starts_again_in_place_under_another_agent(cluster, pods):
    pods.run("again", user(), **of_amount(cluster, 4096), restartPolicy="Always")
    agent = cluster.nodes[NODE].agent
    agent.stop()
    for file in prepared(cluster):
        file.unlink()
    agent.start()
    eventually(lambda: prepared(cluster), "its CDI device is there again")
    kill_main(cluster, pods, "again")
    eventually(lambda: restarts(pods, "again") and running_again(pods, "again"), "it runs again")
    assert limit(pods, "again") == "4096m"


def test_a_pod_whose_agent_is_late_after_a_reboot_runs_again(cluster, pods):
    pods.run("before", user(), **of_amount(cluster, 6144), restartPolicy="Always")
    cluster.reboot(NODE, agent=False)
    eventually(lambda: cluster.api.events("default", "before", "FailedPrepareDynamicResources"), "it waits")
    cluster.nodes[NODE].agent.start()
    eventually(lambda: pods.phase("before") == "Running" and running_again(pods, "before"), "it runs again")
    assert limit(pods, "before") == "6144m"
    until_offered(cluster)


def test_the_kubelet_starts_again_and_the_slice_that_it_removed_is_back(cluster, pods):
    pods.run("before", user(), **of_amount(cluster, 2048))
    registered = cluster.nodes[NODE].agent.log.read_text().count('"registered"')
    cluster.nodes[NODE].restart_kubelet()
    log = cluster.nodes[NODE].agent.log
    eventually(lambda: log.read_text().count('"registered"') > registered, "it is registered again")
    pods.run("after", user(), **of_amount(cluster, 3072))
    assert (restarts(pods, "before"), limit(pods, "after")) == (0, "3072m")
    until_offered(cluster)
