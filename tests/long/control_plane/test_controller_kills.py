"""The controller killed again and again while pods come and go: what it knows in the end is the truth."""

import random
import threading
import time
from collections import Counter

from ledger.view import LedgerView
from testbed.api import Api, ApiError
from testbed.controller_process import Controller, asking_webhook, install_crd, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.product import decides
from testbed.registration import configuration, labelled_pod, registered
from tests.control_plane.test_controller_placement import reservations

KILLS, PODS = 8, 160
ALIVE_AT_MOST = 60
FRACTIONS = ("0.125", "0.250", "0.500", "0.875")


class Churn(threading.Thread):
    """Creates pods and deletes others until stopped, and keeps what went wrong."""

    def __init__(self, api: Api, namespace: str, chance: random.Random) -> None:
        super().__init__()
        self.created = 0
        self.refused: list[str] = []
        self.done = threading.Event()
        self._api = api
        self._namespace = namespace
        self._chance = chance
        self._alive: list[str] = []

    def run(self) -> None:
        while not self.done.is_set() or self.created < PODS:
            self._add()
            while len(self._alive) > ALIVE_AT_MOST or (self._alive and self._chance.random() < 0.4):
                self._take_away(self._alive.pop(self._chance.randrange(len(self._alive))))

    def _add(self) -> None:
        name = f"pod-{self.created}"
        pod = labelled_pod(name, self._chance.choice(FRACTIONS), terminationGracePeriodSeconds=0)
        self.created += 1
        try:
            self._api.create(pod, self._namespace)
        except ApiError as error:
            self.refused.append(str(error))
        else:
            self._alive.append(name)

    def _take_away(self, name: str) -> None:
        # Some are deleted by force, some evicted: to a ledger it must be one and the same.
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        if self._chance.random() < 0.3:
            self._api.call("POST", f"/api/v1/namespaces/{self._namespace}/pods/{name}/eviction", eviction)
        else:
            self._api.delete("Pod", name, self._namespace)


def test_kills_at_random_moments_leave_the_truth(control_plane, namespace, nodes, tmp_path):
    names = nodes(GpuNode(gpus=4), GpuNode(gpus=4), GpuNode(gpus=2, memory_mib=40960))
    install_crd(control_plane.api)
    tls = write_tls(tmp_path / "tls")
    lease = f"kills-{namespace}"
    controller = Controller(control_plane.kubeconfig, tmp_path, tls, lease)
    webhook = asking_webhook(controller.url, tls, tmp_path)
    try:
        config = configuration("fractions", webhook.url, webhook.ca_pem)
        with registered(control_plane.api, config, namespace, decides):
            refused = kill_while_pods_come_and_go(control_plane, namespace, controller)
        assert refused == []
        eventually(
            lambda: used(controller, names) == truth(control_plane, names),
            "the ledger is the cluster's truth",
        )
        controller.until_leading()
        eventually(lambda: reservations(controller) == 0, "no reservation is left")
        fresh = Controller(control_plane.kubeconfig, tmp_path, tls, f"{lease}-2", name="fresh")
        try:
            # Nodes and pods of the tests before may still be going: both hear of it, one a moment later.
            eventually(lambda: fresh.ledger() == controller.ledger(), "both know the same")
        finally:
            fresh.stop()
        assert overfull(controller.ledger(), names) == []
    finally:
        webhook.stop()
        controller.stop()


def kill_while_pods_come_and_go(control_plane, namespace, controller):
    """Kill and start again at random moments; give what was refused meanwhile."""
    chance = random.Random(8)  # noqa: S311 - for the moments
    churn = Churn(control_plane.api, namespace, chance)
    churn.start()
    try:
        for _ in range(KILLS):
            moment = time.monotonic() + chance.uniform(0.0, 1.5)
            eventually(lambda moment=moment: time.monotonic() >= moment, "a random moment has come")
            controller.kill()
            controller.start_again()
    finally:
        churn.done.set()
        churn.join()
    return churn.refused


def used(controller, nodes):
    """Slices by node and index that bound pods hold of the nodes."""
    found = Counter()
    for node in controller.ledger().nodes:
        for gpu in node.gpus if node.name in nodes else ():
            found[node.name, gpu.index] += sum(s.slices for s in gpu.shares if s.kind == "holder")
    return +found


def truth(control_plane, nodes):
    """The same from the API server's pods."""
    found = Counter()
    for pod in control_plane.api.list("Pod"):
        node = pod["spec"].get("nodeName")
        if node in nodes and pod["status"]["phase"] not in ("Succeeded", "Failed"):
            for container in pod["spec"]["containers"]:
                for name, amount in container["resources"].get("requests", {}).items():
                    if name.startswith("nvidia.com/gpu-"):
                        found[node, int(name.removeprefix("nvidia.com/gpu-"))] += int(amount)
    return found


def overfull(view: LedgerView, nodes):
    return [(node.name, gpu) for node in view.nodes if node.name in nodes for gpu in node.gpus if gpu.over]
