"""Quotas on a real control plane, against tenants who create whatever they like in parallel."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest

from testbed.api import ApiError
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod

CLIENTS = 8
QUOTA = "quotas: {namespaces: {%s: {slices: 8}}}"
TRY_AGAIN = "cannot be counted while the controller is away: try again"


@pytest.fixture
def room(nodes, namespace):
    """The test's namespace, with nodes for all of its pods."""
    nodes(*[GpuNode(gpus=8, memory="2Ti", cpu="1000")] * 4)
    return namespace


@pytest.fixture
def create(control_plane, namespace):
    """Create pods in parallel; gives the refusals by name of pod."""

    def one(pod, where=namespace):
        try:
            control_plane.api.create(pod, where)
        except ApiError as error:
            return pod["metadata"]["name"], str(error)
        return None

    def many(pods, **options):
        with ThreadPoolExecutor(CLIENTS) as clients:
            return dict(filter(None, clients.map(lambda pod: one(pod, **options), pods)))

    return many


def fill(control_plane, namespace, pod_of):
    """Create one pod after the other until the quota is full; on a slow machine some wait for an answer."""

    def is_full():
        try:
            control_plane.api.create(pod_of(len(tried)), namespace)
        except ApiError as error:
            return "8 of 8 slices are used" in str(error)
        finally:
            tried.append(None)
        return False

    tried = []
    eventually(is_full, "the quota is full")
    assert len(control_plane.api.list("Pod", namespace)) == 8


def copies_of(stored, count):
    """What `kubectl get -o yaml`, sed and `kubectl create` make of a pod."""
    for number in range(count):
        pod = copy.deepcopy(stored)
        kept = {key: pod["metadata"][key] for key in ("labels", "annotations")}
        pod["metadata"] = {"name": f"copy-{number}", **kept}
        pod["spec"].pop("nodeName", None)
        del pod["status"]
        yield pod


def test_parallel_copies_of_an_injected_pod_stay_within_the_quota(room, serve, create, control_plane):
    namespace = room
    serve(QUOTA % namespace)
    stored = control_plane.api.create(labelled_pod("first", "0.125"), namespace)
    refused = create(list(copies_of(stored, 60)))
    assert len(control_plane.api.list("Pod", namespace)) == 61 - len(refused) <= 8
    fill(control_plane, namespace, lambda number: labelled_pod(f"last-{number}", "0.125"))
    assert all(f'quota of namespace "{namespace}"' in text for text in refused.values())


def test_creators_of_huge_pods_are_refused_and_hurt_nobody(room, serve, create, namespace):
    huge = [
        labelled_pod(f"huge-{n}", "0.125", nodeSelector={"k": "v" * 1_100_000, "l": "v" * 1_100_000})
        for n in range(12)
    ]
    modest = [labelled_pod(f"pod-{n}", "0.125") for n in range(8)]
    serve(QUOTA % namespace)
    refused = create([pod for pair in zip(huge, modest, strict=False) for pod in pair] + huge[8:])
    # A machine that is busy with the huge ones may not hear of the controller in time, and says so.
    for pod in [pod for pod in modest if TRY_AGAIN in refused.get(pod["metadata"]["name"], "")]:
        del refused[pod["metadata"]["name"]]
        eventually(lambda pod=pod: create([pod]) == {}, "a pod that was denied for that is let in")
    for number in range(12):
        assert "more than 524288" in refused.pop(f"huge-{number}")
    assert refused == {}
