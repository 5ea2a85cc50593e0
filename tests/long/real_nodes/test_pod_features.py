"""Containers that start again by a rule of their own, with the limiter of the webhook, on a real kubelet."""

import pytest

from testbed.api import Object
from testbed.nodes.cluster import RealCluster
from testbed.nodes.stub_images import LIBRARY_TEXT
from testbed.process import eventually
from tests.real_nodes.installed import conftest as installed
from tests.real_nodes.load import task
from tests.real_nodes.pods import LIMIT, WORK, environment, inside

cluster, installation = installed.cluster, installed.installation
EXITED = {"operator": "In", "values": [42]}
ONCE = "test -e /kept/was-here && sleep 3600; touch /kept/was-here; exit 42"
"""Ends the first time, and runs on the second."""


def status(cluster: RealCluster, name: str) -> Object:
    return cluster.api.get("Pod", name, WORK)["status"]


def is_limited(cluster: RealCluster, made: Object) -> None:
    """See that the container has the limit that was decided at creation, and the limiter's library."""
    name, notes = made["metadata"]["name"], made["metadata"]["annotations"]
    variables = environment(cluster, name)
    assert variables[LIMIT] == f"{notes['clearml-injector/memory-mib']}m"
    assert inside(cluster, name, "cat", variables["LD_PRELOAD"]) == LIBRARY_TEXT.decode()
    assert inside(cluster, name, "sh", "-c", "echo account > /usr/local/vgpu-cache/x") == ""
    devices = inside(cluster, name, "sh", "-c", "ls /dev/nvidia*").split()
    assert devices == [f"/dev/nvidia{notes['clearml-injector/gpu-index']}"]


@pytest.mark.parametrize("action", ["Restart", "RestartAllContainers"])
def test_what_starts_again_by_a_rule_of_its_container_keeps_its_limit(installation, cluster, action):
    pod = task("again", "0.250", ONCE, volumes=[{"name": "kept", "emptyDir": {}}])
    pod["spec"]["containers"][0] |= {
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": action, "exitCodes": EXITED}],
        "volumeMounts": [{"name": "kept", "mountPath": "/kept"}],
    }
    made = cluster.api.create(pod, WORK)

    def again() -> list[Object]:
        found = status(cluster, "again").get("containerStatuses", [])
        return [each for each in found if "running" in each["state"] and each["restartCount"]]

    eventually(again, "it runs again")
    is_limited(cluster, made)
    # All containers: the one that brings the library too, over what it brought before.
    [limiter] = status(cluster, "again")["initContainerStatuses"]
    assert limiter["restartCount"] == (action == "RestartAllContainers")
    cluster.api.delete("Pod", "again", WORK)
