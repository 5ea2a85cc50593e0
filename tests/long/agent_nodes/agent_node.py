"""What tests of the agent do to its node, and what they see of it."""

from testbed.nodes.cluster import RealCluster
from testbed.process import eventually
from tests.real_nodes.agent_pods import GPUS, NODE, Pods, container


def allocatable(cluster: RealCluster, prefix: str = "nvidia.com/gpu-") -> dict[str, str]:
    """Slices that the node offers, by resources whose names begin so."""
    [node] = [each for each in cluster.api.list("Node") if each["metadata"]["name"] == NODE]
    return {
        name: count
        for name, count in node["status"]["allocatable"].items()
        if name.startswith(prefix) and (prefix.endswith("-") or name == prefix)
    }


def until_offered(cluster: RealCluster, small: int = 8, large: int = 8) -> None:
    wanted = {"nvidia.com/gpu-0": str(small), "nvidia.com/gpu-1": str(large)}
    eventually(lambda: allocatable(cluster) == wanted, f"{wanted} are offered")


def restarts(pods: Pods, name: str) -> int:
    return pods.status(name)["containerStatuses"][0]["restartCount"]


def kill_main(cluster: RealCluster, pods: Pods, name: str) -> None:
    """Kill a pod's container as the kernel would."""
    identity = pods.status(name)["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    cluster.nodes[NODE].ctr("tasks", "kill", "--signal=SIGKILL", identity)


def running_again(pods: Pods, name: str) -> bool:
    return "running" in pods.status(name)["containerStatuses"][0]["state"]


def restart_with_driver(cluster: RealCluster, *, offered: bool) -> None:
    """Restart the agent on a node whose driver can or cannot."""
    agent = cluster.nodes[NODE].agent
    agent.stop()
    until_offered(cluster, 0, 0)
    agent.set_driver_limits(offered=offered)
    agent.start()
    until_offered(cluster)


def health_of_slices(pods: Pods, name: str) -> set[str]:
    """What the kubelet tells in a pod's status of the slices of its first container."""
    resources = pods.status(name)["containerStatuses"][0].get("allocatedResourcesStatus", [])
    return {each["health"] for of_name in resources for each in of_name["resources"]}


STREAM_ENDED = "ListAndWatch ended unexpectedly"
"""What the kubelet says of each name of a plugin that is gone."""


def taken_back(log: str) -> bool:
    """Whether both names were registered after another plugin took them."""
    of_names = [
        [line for line in log.splitlines() if f"nvidia.com/gpu-{n}" in line] for n in range(len(GPUS))
    ]
    return all(
        any("counts another plugin" in line for line in lines) and '"registered"' in lines[-1]
        for lines in of_names
    )


def restart(cluster: RealCluster, divide: tuple[str, ...], small: int) -> None:
    agent = cluster.nodes[NODE].agent
    agent.stop()
    until_offered(cluster, 0, 0)
    agent.divide = divide
    agent.start()
    until_offered(cluster, small, 8)


def pooled(slices: int) -> dict:
    """A container that asks for slices of whatever card."""
    asks = container()
    asks["resources"]["limits"] = {"nvidia.com/gpu": str(slices)}
    return asks
