"""Pods over a quota that wait: in order, never past it, through kills, on a real control plane."""

import threading

import httpx
import pytest

from kube.names import QUOTA_GATE
from testbed.api import ApiError
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.effort import by_turns

pytestmark = pytest.mark.oldest_kubernetes  # scheduling gates are stable since 1.30

POLICY = "quotas: {namespaces: {%s: {maxPods: %d}}, whenOverQuota: wait, whenDegraded: wait}\nlimiter: none"
ROOM = [GpuNode(gpus=8, memory="2Ti", cpu="1000")] * 2
MOST = 10
PODS = by_turns("control_plane", usual=16, full=200)
KILLS = by_turns("control_plane", usual=2, full=20)


def has_gate(pod):
    return any(gate["name"] == QUOTA_GATE for gate in pod["spec"].get("schedulingGates", ()))


def names(pods):
    return sorted(pod["metadata"]["name"] for pod in pods)


class Observer(threading.Thread):
    """Reads the namespace without pause; keeps the most pods without a gate, and their order."""

    def __init__(self, api, namespace):
        super().__init__()
        self.most = 0
        self.order = []
        self.waited = set()
        self.done = threading.Event()
        self._api, self._namespace = api, namespace

    def run(self):
        while not self.done.wait(0.02):
            try:
                pods = self._api.list("Pod", self._namespace)
            except (ApiError, httpx.TransportError):
                continue
            self.waited |= {*names(filter(has_gate, pods))}
            free = [pod for pod in pods if not has_gate(pod)]
            self.most = max(self.most, len(free))
            self.order += [name for name in names(free) if name not in self.order]


def create(control_plane, namespace, pod):
    """Create a pod; the API server fails creations while the webhook is being killed."""

    def is_created():
        try:
            control_plane.api.create(pod, namespace)
        except ApiError as error:
            return "already exists" in str(error)
        return True

    eventually(is_created, "the pod is created")


def end_some(control_plane, namespace, observer):
    """Delete the observed pods that have a node; return whether any is left at all."""
    pods = control_plane.api.list("Pod", namespace)
    for pod in pods:
        if pod["spec"].get("nodeName") and pod["metadata"]["name"] in observer.order:
            control_plane.api.delete("Pod", pod["metadata"]["name"], namespace)
    return bool(pods)


@pytest.mark.timeout(1800, func_only=True)
def test_pods_over_a_quota_run_in_order_ten_at_a_time_through_kills(serve, nodes, control_plane, namespace):
    observer = Observer(control_plane.api, namespace)
    expected = [f"pod-{number:03}" for number in range(PODS)]
    nodes(*ROOM)
    controller, webhook = serve(POLICY % (namespace, MOST))
    observer.start()
    try:
        for number, name in enumerate(expected):
            create(control_plane, namespace, labelled_pod(name, "0.125", terminationGracePeriodSeconds=0))
            if number * KILLS // PODS != (number + 1) * KILLS // PODS:
                kill(number, controller, webhook)
            if number % 3 == 2:
                end_some(control_plane, namespace, observer)
        eventually(
            lambda: not end_some(control_plane, namespace, observer),
            "every pod has run",
            seconds=60 + 4 * PODS,
        )
    finally:
        observer.done.set()
        observer.join()
    # How many run at once, and how many wait, is the machine's speed, but never more than the quota run.
    assert 1 < observer.most <= MOST
    assert observer.waited
    assert observer.order == expected, "none is lost, and none passes another"


def kill(number, controller, webhook):
    """Kill the controller and the webhook by turns, at a moment of the run."""
    if number % 2:
        controller.kill()
        controller.start_again()
    else:
        webhook.kill()
        webhook.start_again()
