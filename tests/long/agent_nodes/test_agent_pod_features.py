"""What newer releases of Kubernetes let a pod say, with the node agent: what they get on a real kubelet.

Its cluster is one of its own: a node whose GPUs the agent offers, and no webhook.
"""

from collections.abc import Iterator

import pytest

from testbed.nodes.cluster import RealCluster
from testbed.nodes.stub_images import LIBRARY, LIBRARY_TEXT, LIMITER
from testbed.process import eventually
from tests.conftest import Say
from tests.real_nodes.agent_pods import Pods, agent_cluster, container

LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0"
EXITED = {"operator": "In", "values": [42]}
ONCE = "test -e /kept/was-here && sleep 3600; touch /kept/was-here; exit 42"
"""Ends the first time, and runs on the second."""


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


def is_limited(pods: Pods, name: str, limit: str) -> None:
    """See that a container has its card alone, and everything that holds it to its share."""
    assert pods.environment(name)[LIMIT] == limit
    assert pods.inside(name, "sh", "-c", "ls /dev/nvidia[0-9]").split() == ["/dev/nvidia0"]
    assert pods.inside(name, "cat", "/etc/ld.so.preload") == "/usr/local/vgpu/libvgpu.so\n"
    assert "stand-in" in pods.inside(name, "cat", "/usr/local/vgpu/libvgpu.so")


def starts(pods: Pods, name: str) -> int:
    """How often a pod's container started again, once it runs."""

    def running() -> list[dict]:
        found = pods.status(name).get("containerStatuses", [])
        return [each for each in found if "running" in each["state"] and each["restartCount"]]

    [status] = eventually(running, f"{name} runs again")
    return status["restartCount"]


KEPT = {"volumes": [{"name": "kept", "emptyDir": {}}]}


def restarting(action: str) -> dict:
    """A container that ends with 42 at first, and starts again by a rule of its own."""
    return {
        **container(command=ONCE, gpu0=2),
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": action, "exitCodes": EXITED}],
        "volumeMounts": [{"name": "kept", "mountPath": "/kept"}],
    }


def test_a_container_that_starts_again_by_its_own_rule_keeps_its_limit(pods):
    pods.create("again", restarting("Restart"), **KEPT)
    assert starts(pods, "again") == 1
    is_limited(pods, "again", "10240m")
    assert pods.held() == {("again", "nvidia.com/gpu-0"): 2}


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
