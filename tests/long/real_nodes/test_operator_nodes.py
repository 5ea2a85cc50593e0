"""What nodes of the GPU operator may go through: other layouts, shares of every size, a new driver, a reboot.

Its cluster is one of its own, as that of tests/real_nodes/test_gpu_operator.py.
"""

import pytest

from testbed.nodes.cluster import RealCluster
from testbed.process import eventually
from testbed.registration import probe, refuses
from tests.real_nodes import test_gpu_operator
from tests.real_nodes.agent_pods import GPUS, NODE
from tests.real_nodes.installation import READY_S
from tests.real_nodes.operator_node import (
    CLIENT,
    HELD,
    PLUGIN,
    discover_features,
    each_slice_is_held_once,
    has_share,
    is_let_in,
    libraries,
    offered,
    ready_agents,
    run,
    running,
    serve,
    set_label,
    taints,
    until_another_serves,
)
from tests.real_nodes.pods import WORK, cards, deployment, labelled, pod

cluster, installation = test_gpu_operator.cluster, test_gpu_operator.installation


LAYOUTS = {
    "operator with its NRI plugin, no runtime class": {"runtimeClassName": "", "privileged": True},
    "driver of the node's own": {"driverRoot": "/"},
    "driver and toolkit of the node's own": {
        "driverRoot": "/",
        "toolkitDir": "/usr/bin",
        "runtimeClassName": "",
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_share_on_a_node_of_another_layout(installation, cluster, layout):
    agent = LAYOUTS[layout]
    set_label(cluster, PLUGIN, "false")
    if agent.get("driverRoot") == "/":
        cluster.nodes[NODE].agent.install_on_host()
    serve(installation, **agent)
    run(cluster, labelled("laid-out", "0.250"))
    has_share(cluster, "laid-out", 2)
    cluster.api.delete("Pod", "laid-out", WORK)


EIGHTHS = {f"{number / 8:.3f}": number for number in range(1, 9)}
TOGETHER = (8, 7, 1), (6, 2, 5, 3), (4, 4, 4, 4)
"""Shares that fill both cards."""


def test_shares_of_every_size_fill_the_cards(installation, cluster):
    set_label(cluster, PLUGIN, "false")
    # Of unequal cards NVIDIA's GPU feature discovery labels any; the agent limits by each card's own memory.
    assert discover_features(cluster)["nvidia.com/gpu.memory"] in {str(card.memory_mib) for card in GPUS}
    serve(installation, policies={"default": {"limits": {"from": "agent"}, "fractions": EIGHTHS}})
    eventually(lambda: is_let_in(cluster, labelled("whole", "1.000")), "the policy is in force", READY_S)
    for sizes in TOGETHER:
        names = {f"share-{number}": size for number, size in enumerate(sizes)}
        for name, size in names.items():
            run(cluster, labelled(name, f"{size / 8:.3f}"))
        for name, size in names.items():
            has_share(cluster, name, size)
        each_slice_is_held_once(cluster)
        for name in names:
            cluster.api.delete("Pod", name, WORK)
        eventually(lambda: not cluster.held_slices(), "no slice is held", 60)


def resident(cluster: RealCluster) -> str | None:
    """The name of the Deployment's pod, where it runs."""
    found = cluster.api.list("Pod", WORK, labels="app=resident")
    names = [each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"]]
    return next((name for name in names if running(cluster, name)), None)


@pytest.mark.timeout(900, func_only=True)
def test_a_share_through_an_upgrade_of_the_driver_a_reboot_and_opting_out(installation, cluster):
    set_label(cluster, PLUGIN, "false")
    serve(installation)
    eventually(lambda: is_let_in(cluster, labelled("tried", "0.125")), "labelled pods are let in", READY_S)
    cluster.api.create(deployment(labelled("resident", "0.125")), WORK)
    name = eventually(lambda: resident(cluster), "the share runs", READY_S)
    before = running(cluster, name)
    assert libraries(cluster, name) == {"595.71.05"}

    # As the operator's driver manager does it.
    of_before = ready_agents(installation)
    set_label(cluster, CLIENT, "paused-for-driver-upgrade")
    eventually(lambda: not installation.objects("agent"), "the agent's pod is gone", 90)
    eventually(lambda: users_of_driver(cluster) == [], "the driver could be unloaded")
    cluster.nodes[NODE].agent.upgrade_driver("615.10.02")
    assert taints(cluster) == []
    set_label(cluster, CLIENT, "true")
    until_another_serves(installation, of_before)
    assert running(cluster, name) == before

    # What starts again gets the files of the new driver, under the name that it was given.
    cluster.nodes[NODE].ctr("tasks", "kill", "--signal=SIGKILL", before.removeprefix("containerd://"))
    eventually(lambda: running(cluster, name) not in {None, before}, "it starts again", 90)
    assert libraries(cluster, name) == {"615.10.02"}
    has_share(cluster, name, 1)

    # The folder of CDI specifications is empty then.
    of_before = ready_agents(installation)
    cluster.reboot(NODE, agent=False)
    test_gpu_operator.show_socket(cluster)
    until_another_serves(installation, of_before)
    eventually(lambda: not refuses(probe(cluster.api, WORK)), "labelled pods are let in", READY_S)
    name = eventually(lambda: resident(cluster), "the share runs again", READY_S)
    has_share(cluster, name, 1)
    assert libraries(cluster, name) == {"615.10.02"}
    run(cluster, labelled("neighbor", "0.875"))
    has_share(cluster, "neighbor", 7)
    each_slice_is_held_once(cluster)
    cluster.api.delete("Pod", "neighbor", WORK)

    # NVIDIA's plugin knows nothing of the share: nobody else may get its card.
    set_label(cluster, PLUGIN, "true")
    eventually(lambda: offered(cluster) == ["2", "0", "0"], "NVIDIA's plugin is back", READY_S)
    eventually(lambda: taints(cluster) == [HELD], "the node is held for the share", 60)
    has_share(cluster, name, 1)
    cluster.api.create(pod("neighbour", {}, resources={"limits": {"nvidia.com/gpu": "1"}}), WORK)
    eventually(lambda: "untolerated taint" in str(why_pending(cluster, "neighbour")), "it waits", 60)
    cluster.api.delete("Deployment", "resident", WORK, "apps/v1")
    eventually(lambda: running(cluster, "neighbour"), "it runs when the share has ended", 120)
    assert len(cards(cluster, "neighbour")) == 1
    assert taints(cluster) == []
    cluster.api.delete("Pod", "neighbour", WORK)


def users_of_driver(cluster: RealCluster) -> list[str]:
    """Processes of the node that have the driver's library open."""
    found = cluster.nodes[NODE].sandbox.run("sh", "-c", "grep -l libnvidia-ml /proc/[0-9]*/maps 2>/dev/null")
    return found.stdout.split()


def why_pending(cluster: RealCluster, name: str) -> object:
    return cluster.api.get("Pod", name, WORK)["status"].get("conditions")
