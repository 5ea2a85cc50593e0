"""MIG cards divided on demand: API server and scheduler, a controller process, a stand-in MIG manager."""

from contextlib import suppress
from threading import Event, Thread

import pytest

from testbed.api import ApiError
from testbed.gpu_nodes import schedulable
from testbed.mig_manager import MigManagerStandIn, gpu_node_labels
from testbed.process import eventually

CHANGE = "clearml-injector/mig-change"
CONFIG_MAP = "mig-configs"


class MigNode:
    """A node of one card with its MIG manager, which looks at the API server in a thread of its own."""

    def __init__(self, control_plane, namespace):
        self.api, self.namespace, self.name = control_plane.api, namespace, f"{namespace}-mig"
        self.manager = MigManagerStandIn()
        labels = {
            "kubernetes.io/hostname": self.name,
            "cdmo.clear.ml/gpu-partitioning": "mig",
            **gpu_node_labels("NVIDIA-A100-SXM4-40GB", 1),
        }
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "200", "ephemeral-storage": "1Ti"}
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": self.name, "labels": labels},
                "status": {"capacity": amounts, "allocatable": amounts},
            }
        )
        eventually(lambda: schedulable(self.node), "the node takes pods")
        self._over = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    @property
    def node(self):
        return self.api.get("Node", self.name)

    def _run(self):
        while not self._over.wait(0.3):
            # Somebody else has written in between: the next look sees it.
            with suppress(ApiError):
                self._look()

    def _look(self):
        node = self.node
        answer = self.manager.turn(node, self._pods(), self._file())
        if answer.labels:
            self.api.patch("Node", self.name, {"metadata": {"labels": answer.labels}})
        known = node["status"]["allocatable"]
        if answer.allocatable and any(known.get(key) != value for key, value in answer.allocatable.items()):
            gone = {key: "0" for key in known if key.startswith("nvidia.com/mig-")}
            amounts = {**gone, **answer.allocatable}
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            self.api.call(
                "PATCH", f"/api/v1/nodes/{self.name}/status", body, content="application/merge-patch+json"
            )

    def _pods(self):
        return [
            pod for pod in self.api.list("Pod", self.namespace) if pod["spec"].get("nodeName") == self.name
        ]

    def _file(self):
        try:
            return self.api.get("ConfigMap", CONFIG_MAP, self.namespace)["data"]["config.yaml"]
        except ApiError:
            return None

    def stop(self):
        self._over.set()
        self._thread.join()
        self.api.delete("Node", self.name)


@pytest.fixture
def node(control_plane, namespace):
    made = MigNode(control_plane, namespace)
    yield made
    made.stop()


def create(api, namespace, name, profile):
    limits = {f"nvidia.com/mig-{profile}": "1"}
    spec = {"containers": [{"name": "task", "image": "example.com/task", "resources": {"limits": limits}}]}
    api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, namespace)


def runs(api, namespace, name):
    return api.get("Pod", name, namespace)["status"].get("phase") == "Running"


def waits(api, namespace, name):
    """Whether the scheduler has found no room for a pod."""
    conditions = api.get("Pod", name, namespace)["status"].get("conditions", [])
    return any(each.get("reason") == "Unschedulable" for each in conditions)


def is_scheduled(node):
    found = node.node
    return CHANGE not in found["metadata"].get("annotations", {}) and not found["spec"].get("unschedulable")


def until_running(node, *names):
    for name in names:
        eventually(lambda name=name: runs(node.api, node.namespace, name), f"{name} runs")
    eventually(lambda: is_scheduled(node), "the node takes pods again")
    assert node.manager.refusals == 0


def test_two_pods_at_once_run_and_the_card_changes_again_only_when_it_is_idle(
    control_plane, namespace, node, start
):
    api = control_plane.api
    create(api, namespace, "large", "4g.20gb")
    create(api, namespace, "half", "3g.20gb")
    # The controller plans for those that it finds waiting at its first look.
    eventually(lambda: waits(api, namespace, "large") and waits(api, namespace, "half"), "both wait")
    more = (f"--mig-config-map={namespace}/{CONFIG_MAP}", "--mig-config-delay=1", "--mig-pause=1")
    start("dividing", *more).until_leading()
    until_running(node, "large", "half")
    assert node.manager.divided == 1
    api.delete("Pod", "large", namespace)
    create(api, namespace, "whole", "7g.40gb")
    create(api, namespace, "again", "4g.20gb")
    until_running(node, "again")
    assert not runs(api, namespace, "whole")
    api.delete("Pod", "half", namespace)
    api.delete("Pod", "again", namespace)
    until_running(node, "whole")
    assert node.manager.divided == 2
