"""The agent as a DRA driver on a real kubelet and containerd: claims by hand, and what containers get.

Its cluster is one of its own: a node whose GPUs the agent offers by DRA, and no webhook.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kube.dra import CLAIM_NAME, DRIVER, REQUEST_NAME, SHARES_OF_CARD
from testbed.nodes.cluster import RealCluster
from testbed.nvidia.cards import Xid
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
    """Of pods."""
    return cluster.api.list("ResourceClaim", "default", API)


def exactly(share, **more):
    """A request for millionths of one GPU; None for a whole one."""
    capacity = {"capacity": {"requests": {"share": str(share)}}} if share is not None else {}
    return {"deviceClassName": DRIVER, **capacity, **more}


def share_of(mib):
    """The least share of the small GPU that has room for so many MiB, and so of the large one."""
    return -(-mib * SHARES_OF_CARD // GPUS[SMALL].memory_mib)


def limited_to(mib, request):
    """The configuration by which a request's limit is exactly so many MiB of whatever GPU."""
    parameters = {"apiVersion": f"{DRIVER}/v1", "kind": "GpuMemory", "memoryMiB": mib}
    return {"requests": [request], "opaque": {"driver": DRIVER, "parameters": parameters}}


def template(cluster, name, *requests, config=()):
    """Create a template of claims with these requests, unless it is there."""
    existing = {
        each["metadata"]["name"] for each in cluster.api.list("ResourceClaimTemplate", "default", API)
    }
    if name not in existing:
        body = {"spec": {"devices": {"requests": list(requests), "config": list(config)}}}
        cluster.api.create(
            {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": body},
            "default",
        )
    return {"resourceClaims": [{"name": CLAIM_NAME, "resourceClaimTemplateName": name}]}


def of_amount(cluster, mib, **more):
    """The pod's part of a claim for so many MiB of one GPU, or for a whole one."""
    name = f"amount-{mib or 'whole'}" + "".join(f"-{key}".lower() for key in more)
    asked = {"name": REQUEST_NAME, "exactly": exactly(share_of(mib) if mib else None, **more)}
    return template(cluster, name, asked, config=[limited_to(mib, REQUEST_NAME)] if mib else ())


def user(name="main", request="", **more):
    """A container that has the claim, or one request of it."""
    made = container(name, **more)
    made["resources"] = {"claims": [{"name": CLAIM_NAME, **({"request": request} if request else {})}]}
    return made


def limit(pods, name, container="main"):
    """The limit of a container's first GPU."""
    return pods.environment(name, container).get("CUDA_DEVICE_MEMORY_LIMIT_0")


def until_devices(cluster, wanted):
    """Wait until the devices are these, with the keys of their taints."""

    def found():
        return {
            name: [taint["key"].rpartition("/")[2] for taint in device.get("taints", ())]
            for name, device in cluster.dra_devices(NODE).items()
        }

    eventually(lambda: found() == wanted, f"{wanted} are offered")


def test_a_claim_without_an_amount_is_a_whole_card_without_a_limit(cluster, pods):
    pods.run("whole", user(), **of_amount(cluster, None))
    assert limit(pods, "whole") is None
    assert pods.inside("whole", "sh", "-c", "ls /dev/nvidia[0-9]").split() == ["/dev/nvidia0"]
    pods.run("next", user(), **of_amount(cluster, 1024))
    assert pods.inside("next", "sh", "-c", "ls /dev/nvidia[0-9]").split() == ["/dev/nvidia1"]


def test_containers_have_parts_of_their_own_and_one_that_wants_both_does_not_start(cluster, pods):
    parts = template(
        cluster,
        "parts",
        {"name": "gpu-0", "exactly": exactly(share_of(4096))},
        {"name": "gpu-1", "exactly": exactly(share_of(8192))},
        config=[limited_to(4096, "gpu-0"), limited_to(8192, "gpu-1")],
    )
    pods.run("apart", user(request="gpu-0"), user("other", request="gpu-1"), **parts)
    assert (limit(pods, "apart"), limit(pods, "apart", "other")) == ("4096m", "8192m")
    pods.create("greedy", user(), **parts)
    said = eventually(lambda: failed_start(pods, "greedy"), "it does not start")
    assert "CUDA_DEVICE_MEMORY_LIMIT_0 would have to be 4096m" in said


def failed_start(pods, name):
    """Why a pod's container did not start."""
    [status] = pods.status(name).get("containerStatuses") or [{}]
    states = [*status.get("state", {}).values(), *status.get("lastState", {}).values()]
    return next((each["message"] for each in states if "would have to be" in each.get("message", "")), "")


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
    until_devices(cluster, {"gpu-0": [], "gpu-1": []})


def test_the_kubelet_starts_again_and_the_slice_that_it_removed_is_back(cluster, pods):
    pods.run("before", user(), **of_amount(cluster, 2048))
    registered = cluster.nodes[NODE].agent.log.read_text().count('"registered"')
    cluster.nodes[NODE].restart_kubelet()
    log = cluster.nodes[NODE].agent.log
    eventually(lambda: log.read_text().count('"registered"') > registered, "it is registered again")
    pods.run("after", user(), **of_amount(cluster, 3072))
    assert (restarts(pods, "before"), limit(pods, "after")) == (0, "3072m")
    until_devices(cluster, {"gpu-0": [], "gpu-1": []})


def test_an_unhealthy_card_is_tainted_and_takes_no_pods_until_it_is_well(cluster, pods):
    agent = cluster.nodes[NODE].agent
    pods.run("resident", user(), **of_amount(cluster, 1024))
    agent.write_gpus(GPUS, [Xid(GPUS[SMALL].uuid, 79)])
    until_devices(cluster, {"gpu-0": ["xid"], "gpu-1": []})
    pods.run("elsewhere", user(), **of_amount(cluster, 2048))
    assert pods.inside("elsewhere", "sh", "-c", "ls /dev/nvidia[0-9]").split() == ["/dev/nvidia1"]
    assert pods.phase("resident") == "Running"
    agent.write_gpus([replace(gpu, lost=True) for gpu in GPUS])
    until_devices(cluster, {"gpu-0": ["gpu-lost"], "gpu-1": ["gpu-lost"]})
    pods.create("late", user(), **of_amount(cluster, 3072))
    eventually(lambda: "cannot allocate all claims" in str(pods.status("late")), "it waits")
    assert [pods.phase(name) for name in ("resident", "elsewhere", "late")] == [
        "Running",
        "Running",
        "Pending",
    ]
    agent.write_gpus(GPUS)
    until_devices(cluster, {"gpu-0": [], "gpu-1": []})
    pods.until_running("late")


def test_an_agent_that_becomes_a_device_plugin_waits_until_no_pod_has_a_claim(cluster, pods):
    agent = cluster.nodes[NODE].agent
    pods.run("claimed", user(), **of_amount(cluster, 1024))
    by_dra, agent.dra_of = agent.dra_of, None
    agent.stop()
    before = len(agent.log.read_text()) if agent.log.exists() else 0
    agent.start()
    try:
        eventually(
            lambda: "drain the node with agent.offer: dra" in agent.log.read_text()[before:], "it says so"
        )
        assert pods.phase("claimed") == "Running"
    finally:
        agent.stop()
        agent.dra_of = by_dra
        agent.start()
    until_devices(cluster, {"gpu-0": [], "gpu-1": []})
