"""The node agent on a real kubelet and containerd: what containers get, and what it survives.

Its cluster is one of its own: a node whose GPUs the agent offers, and no webhook.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.settings import APPLICATION_XIDS
from testbed.nodes.agent import LIMITS_BY_AGENT, POOL, AgentOnNode
from testbed.nodes.cluster import RealCluster
from testbed.nodes.stub_images import LIBRARY, LIBRARY_TEXT, LIMITER
from testbed.nvidia.cards import Xid
from testbed.process import eventually
from tests.conftest import Say
from tests.long.agent_nodes.agent_node import (
    STREAM_ENDED,
    allocatable,
    health_of_slices,
    kill_main,
    pooled,
    restart,
    restart_with_driver,
    restarts,
    running_again,
    taken_back,
    until_offered,
)
from tests.real_nodes.agent_pods import GPUS, LARGE, NODE, SMALL, Pods, agent_cluster, container

KILLS = int(os.environ.get("AGENT_KILLS", "4"))


@pytest.fixture(scope="module")
def cluster(possible, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A node whose two GPUs the agent offers."""
    with agent_cluster(say, pytestconfig) as cluster:
        yield cluster


@pytest.fixture
def pods(cluster: RealCluster) -> Iterator[Pods]:
    """A way to create pods that are gone when the test ends."""
    pods = Pods(cluster)
    yield pods
    pods.delete_all()


def test_a_container_that_starts_again_in_place_keeps_its_limit_also_under_another_agent(cluster, pods):
    pods.run("again", container(gpu0=2), restartPolicy="Always")
    cluster.nodes[NODE].agent.stop()
    cluster.nodes[NODE].agent.start()
    until_offered(cluster)
    kill_main(cluster, pods, "again")
    eventually(lambda: restarts(pods, "again") and pods.phase("again") == "Running", "it starts again")
    eventually(lambda: running_again(pods, "again"), "it runs again")
    assert pods.environment("again")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "10240m"


@pytest.fixture
def driver_limits(cluster: RealCluster) -> Iterator[AgentOnNode]:
    """The agent of a node whose driver can hold containers to GPU memory."""
    agent = cluster.nodes[NODE].agent
    restart_with_driver(cluster, offered=True)
    yield agent
    restart_with_driver(cluster, offered=False)


def test_the_driver_holds_a_containers_own_group_from_before_its_start_to_its_end(
    cluster, pods, driver_limits
):
    cheat = {"NVIDIA_GPU_MEMORY_LIMIT": "999999", "NVIDIA_GPU_MEMORY_REQUEST": "1"}
    pods.run(
        "held",
        container(gpu0=3, env=cheat),
        container("second", gpu1=2),
        container("without"),
        init=(container("init", "true", gpu0=3),),
    )
    status = pods.status("held")["containerStatuses"]
    identities = {each["name"]: each["containerID"].removeprefix("containerd://") for each in status}
    limits = driver_limits.driver_limits()
    of_container = {Path(each["group"]).name: (each["uuid"], each["mib"]) for each in limits}
    assert of_container == {
        identities["main"]: (GPUS[SMALL].uuid, 15360),
        identities["second"]: (GPUS[LARGE].uuid, 20480),
    }
    # NVIDIA's own hook believes the pod, and ours is the last.
    assert [each["mib"] for each in limits if identities["main"] in each["group"]] == [999999, 15360]
    # What is requested stays in dmem.min of the groups above until the node reboots.
    assert [each["requested"] for each in limits if each["mib"] in {15360, 20480}] == [0, 0]
    pods.delete("held")
    eventually(lambda: not driver_limits.driver_limits(), "no group is left")


def test_the_kubelet_starts_again(cluster, pods):
    agent = cluster.nodes[NODE].agent
    pods.run("before", container(gpu0=5))
    registered = agent.log.read_text().count('"registered"')
    cluster.nodes[NODE].restart_kubelet()
    # Until the new kubelet has written it, the node's status is that of the old one.
    eventually(
        lambda: agent.log.read_text().count('"registered"') >= registered + 2, "both names are registered", 60
    )
    until_offered(cluster)
    pods.run("after", container(gpu0=3))
    assert restarts(pods, "before") == 0
    assert pods.held() == {("before", "nvidia.com/gpu-0"): 5, ("after", "nvidia.com/gpu-0"): 3}


def test_a_pod_whose_agent_is_late_after_a_reboot_fails_for_good(cluster, pods):
    pods.run("before", container(gpu1=5), restartPolicy="Always")
    cluster.reboot(NODE, agent=False)
    eventually(lambda: pods.phase("before") == "Failed", "it is refused")
    assert pods.status("before")["reason"] == "UnexpectedAdmissionError"
    until_offered(cluster, 0, 0)
    cluster.nodes[NODE].agent.start()
    until_offered(cluster)
    pods.run("after", container(gpu1=7))
    assert pods.environment("after")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "71680m"
    assert pods.phase("before") == "Failed"


def test_slices_of_an_unhealthy_gpu_are_not_offered_until_it_is_well(cluster, pods):
    agent = cluster.nodes[NODE].agent
    pods.run("resident", container(gpu0=1))
    agent.write_gpus(GPUS, [Xid(GPUS[SMALL].uuid, APPLICATION_XIDS[0])])
    agent.write_gpus(GPUS, [Xid(GPUS[LARGE].uuid, APPLICATION_XIDS[0]), Xid(GPUS[LARGE].uuid, 79)])
    until_offered(cluster, 8, 0)
    agent.write_gpus([replace(gpu, lost=True) for gpu in GPUS])
    until_offered(cluster, 0, 0)
    eventually(lambda: health_of_slices(pods, "resident") == {"Unhealthy"}, "its pod's status says so")
    agent.write_gpus(GPUS)
    until_offered(cluster)
    eventually(lambda: health_of_slices(pods, "resident") == {"Healthy"}, "its pod's status says so")
    assert pods.phase("resident") == "Running"


def test_next_to_another_plugin_that_stays_the_agent_answers_and_leaves_it_the_names_when_it_dies(
    cluster, pods
):
    """As of kubelet 1.37, which keeps every plugin of a name."""
    node = cluster.nodes[NODE]
    before = len(node.agent.log.read_text())
    node.start_device_plugin()
    try:
        eventually(lambda: taken_back(node.agent.log.read_text()[before:]), "the agent takes it back")
        until_offered(cluster)
        pods.run("neighbor", container(gpu0=1))
        assert pods.environment("neighbor")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "5120m"
        log = node.sandbox.folder / "kubelet.log"
        ended = log.read_text().count(STREAM_ENDED)
        node.agent.kill()
        eventually(lambda: log.read_text().count(STREAM_ENDED) >= ended + 2, "the kubelet knows it is gone")
        pods.run("late", container(gpu0=1))
        assert "CUDA_DEVICE_MEMORY_LIMIT_0" not in pods.environment("late")
        node.agent.start()
        until_offered(cluster)
    finally:
        node.device_plugin.stop()


@pytest.fixture
def half_divided(cluster: RealCluster) -> Iterator[AgentOnNode]:
    """The agent of a node of whose two cards only the large one is divided."""
    agent = cluster.nodes[NODE].agent
    restart(cluster, ("A100-80*",), small=0)
    yield agent
    restart(cluster, (), small=8)


def test_a_card_is_divided_and_the_other_stays_whole_for_another_plugin(cluster, pods, half_divided):
    whole = half_divided.start_whole_gpu(GPUS[SMALL])
    try:
        eventually(lambda: allocatable(cluster, "nvidia.com/gpu") == {"nvidia.com/gpu": "1"}, "a card")
        pods.run("share", container(gpu1=4))
        assert pods.environment("share")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "40960m"
        pods.run("whole", pooled(1))
        assert pods.environment("whole")["NVIDIA_VISIBLE_DEVICES"] == GPUS[SMALL].uuid
        assert pods.held() == {("share", "nvidia.com/gpu-1"): 4, ("whole", "nvidia.com/gpu"): 1}
        assert "another plugin has it" not in half_divided.log.read_text()
    finally:
        pods.delete_all()
        whole.stop()


def test_a_card_that_another_plugin_offers_too_is_withdrawn_until_it_does_not(cluster, pods):
    agent = cluster.nodes[NODE].agent
    pods.run("before", container(gpu1=1))
    whole = agent.start_whole_gpu(GPUS[LARGE])
    try:
        until_offered(cluster, 8, 0)
        assert "GPU gets no new pods: another plugin has it" in agent.log.read_text()
        pods.create("waits", container(gpu1=1))
        eventually(lambda: "Insufficient" in str(pods.status("waits").get("conditions")), "it waits")
        assert pods.phase("before") == "Running"
    finally:
        whole.stop()
    until_offered(cluster)
    pods.until_running("waits")


def test_with_another_policy_the_agent_starts_again_and_offers_a_pool(cluster, pods):
    agent = cluster.nodes[NODE].agent
    agent.write_policy(POOL)
    try:
        eventually(lambda: allocatable(cluster, "nvidia.com/gpu") == {"nvidia.com/gpu": "16"}, "a pool")
        for name, slices in (("five", 5), ("six", 6)):
            pods.run(name, pooled(slices))
            assert len(pods.inside(name, "sh", "-c", "ls /dev/nvidia[0-9]").split()) == 1
            assert pods.environment(name)["CUDA_DEVICE_MEMORY_LIMIT"] in {
                f"{gpu.memory_mib * slices // 8}m" for gpu in GPUS
            }
        # Five are free, and on no card four.
        pods.create("spans", pooled(4))
        eventually(lambda: pods.phase("spans") == "Failed", "it is refused")
        assert "a share cannot span GPUs" in pods.status("spans")["message"]
        for name in ("five", "six", "spans"):
            pods.delete(name)
        eventually(lambda: not pods.held(), "no slice is held")
        pods.run("both", pooled(16))
        assert pods.inside("both", "sh", "-c", "ls /dev/nvidia[0-9]").split() == [
            "/dev/nvidia0",
            "/dev/nvidia1",
        ]
    finally:
        pods.delete_all()
        agent.write_policy(LIMITS_BY_AGENT)
        until_offered(cluster)


@pytest.mark.timeout(60 + 40 * KILLS, func_only=True)
def test_no_pod_gets_more_than_its_share_while_the_agent_is_killed_again_and_again(cluster, pods):
    """`AGENT_KILLS=50` kills it more often."""
    agent = cluster.nodes[NODE].agent
    for kill in range(KILLS):
        names = [f"churn-{kill}-{number}" for number in range(6)]
        for name in names[:3]:
            pods.create(name, container(gpu0=3))
        agent.kill()
        for name in names[3:]:
            pods.create(name, container(gpu1=3))
        registered = agent.log.read_text().count('"registered"')
        agent.start()
        eventually(
            lambda seen=registered: agent.log.read_text().count('"registered"') >= seen + 2, "both are back"
        )
        until_offered(cluster)
        pods.run(f"after-{kill}", container(gpu0=1))
        for resource in ("nvidia.com/gpu-0", "nvidia.com/gpu-1"):
            assert sum(count for (_, name), count in pods.held().items() if name == resource) <= 8
        running = [name for name in names if pods.phase(name) == "Running"]
        limits = {name: pods.environment(name)["CUDA_DEVICE_MEMORY_LIMIT_0"] for name in running}
        assert limits == {name: "15360m" if name in names[:3] else "30720m" for name in running}
        pods.delete_all()


# --- what newer releases of Kubernetes let a pod say


def is_limited(pods: Pods, name: str, limit: str) -> None:
    """See that a container has its card alone, and everything that holds it to its share."""
    assert pods.environment(name)["CUDA_DEVICE_MEMORY_LIMIT_0"] == limit
    assert pods.inside(name, "sh", "-c", "ls /dev/nvidia[0-9]").split() == ["/dev/nvidia0"]
    assert pods.inside(name, "cat", "/etc/ld.so.preload") == "/usr/local/vgpu/libvgpu.so\n"
    assert "stand-in" in pods.inside(name, "cat", "/usr/local/vgpu/libvgpu.so")


def test_a_pod_in_a_user_namespace_is_limited_as_any_other(pods):
    pods.run("mapped", container(gpu0=3), hostUsers=False)
    first, outside, count = pods.inside("mapped", "cat", "/proc/self/uid_map").split()
    assert (first, count) == ("0", "65536")
    assert int(outside) > 0
    is_limited(pods, "mapped", "15360m")
    # Where the limiter keeps its accounts.
    assert pods.inside(
        "mapped", "sh", "-c", "echo account > /usr/local/vgpu-cache/x; cat /usr/local/vgpu-cache/x"
    )


def test_a_pod_with_an_image_volume_is_limited_as_any_other(pods):
    image = {"name": "model", "image": {"reference": LIMITER, "pullPolicy": "Never"}}
    main = container(gpu0=3) | {"volumeMounts": [{"name": "model", "mountPath": "/model"}]}
    pods.run("mounts", main, volumes=[image])
    assert pods.inside("mounts", "cat", f"/model/{LIBRARY}") == LIBRARY_TEXT.decode()
    is_limited(pods, "mounts", "15360m")


def test_cpu_that_is_resized_in_place_leaves_the_share_as_it_is(pods, cluster):
    main = container(gpu0=3)
    main["resources"]["limits"] |= {"cpu": "100m", "memory": "64Mi"}
    pods.run("grows", main)
    resources = {"limits": {"cpu": "200m"}, "requests": {"cpu": "200m"}}
    change = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    content = "application/strategic-merge-patch+json"
    cluster.api.call("PATCH", "/api/v1/namespaces/default/pods/grows/resize", change, content=content)

    def actual() -> str:
        return pods.status("grows")["containerStatuses"][0]["resources"]["limits"]["cpu"]

    eventually(lambda: actual() == "200m", "the kubelet gives the container more")
    assert pods.status("grows")["containerStatuses"][0]["restartCount"] == 0
    is_limited(pods, "grows", "15360m")
    assert pods.held() == {("grows", "nvidia.com/gpu-0"): 3}
