"""The real scheduler and what the webhook writes: slices per GPU, preferred node, memory."""

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod


def create(control_plane, namespace, count, fraction, start=0):
    for number in range(start, start + count):
        control_plane.api.create(labelled_pod(f"pod-{number}", fraction), namespace)


def settled(control_plane, namespace):
    """All pods, once each runs or was found to have no place now; empty until then."""
    pods = control_plane.api.list("Pod", namespace)
    return pods if all(running(pod) or unschedulable(pod) for pod in pods) else []


def running(pod):
    return pod["status"]["phase"] == "Running"


def unschedulable(pod):
    """What the scheduler says of a pod that has no place; empty if it has one or was not looked at yet."""
    conditions = pod["status"].get("conditions", [])
    refused = [c for c in conditions if c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable"]
    return refused[0]["message"] if refused else ""


def gpu_of(pod):
    return pod["spec"]["nodeName"], pod["metadata"]["annotations"]["clearml-injector/gpu-index"]


@pytest.mark.oldest_kubernetes
def test_sixteen_eighths_run_on_two_gpus_and_the_next_waits(nodes, webhook, control_plane, namespace):
    [node] = nodes(GpuNode(gpus=2))
    webhook()
    create(control_plane, namespace, 16, "0.125")
    pods = eventually(lambda: settled(control_plane, namespace), "every pod is scheduled")
    assert Counter(gpu_of(pod) for pod in pods if running(pod)) == {(node, "0"): 8, (node, "1"): 8}
    create(control_plane, namespace, 1, "0.125", start=16)
    pods = eventually(lambda: settled(control_plane, namespace), "every pod is scheduled")
    [waiting] = [pod for pod in pods if not running(pod)]
    assert waiting["metadata"]["name"] == "pod-16"
    assert "1 Insufficient nvidia.com/gpu-" in unschedulable(waiting)


def test_of_five_eighths_created_at_once_exactly_one_runs_on_each_gpu(
    nodes, webhook, control_plane, namespace
):
    first, second = nodes(GpuNode(gpus=3), GpuNode(gpus=3))
    webhook()
    with ThreadPoolExecutor(12) as clients:
        pods = [labelled_pod(f"pod-{number}", "0.625") for number in range(12)]
        list(clients.map(lambda pod: control_plane.api.create(pod, namespace), pods))
    pods = eventually(lambda: settled(control_plane, namespace), "every pod is scheduled")
    expected = {(node, str(index)): 1 for node in (first, second) for index in range(3)}
    assert Counter(gpu_of(pod) for pod in pods if running(pod)) == expected
    assert len(pods) == 12


def test_a_pod_does_not_run_on_a_gpu_of_other_memory_than_its_limit(
    nodes, webhook, control_plane, namespace, kubectl
):
    of_memory = {40960: GpuNode(memory_mib=40960), 81920: GpuNode(memory_mib=81920)}
    node_of = dict(zip(of_memory, nodes(*of_memory.values()), strict=True))
    webhook()
    for node in node_of.values():
        assert kubectl("cordon", node).code == 0
    create(control_plane, namespace, 1, "0.500")
    created = control_plane.api.get("Pod", "pod-0", namespace)
    chosen = int(created["metadata"]["annotations"]["clearml-injector/memory-mib"]) * 2
    [other] = set(node_of) - {chosen}
    assert kubectl("uncordon", node_of[other]).code == 0

    times = itertools.count()

    def refused():
        # Before 1.32 a scheduler looks again only at pods that change or that a changed node could take.
        touched = {"metadata": {"annotations": {"touched": str(next(times))}}}
        control_plane.api.patch("Pod", "pod-0", touched, namespace)
        said = unschedulable(control_plane.api.get("Pod", "pod-0", namespace))
        return "1 node(s) didn't match Pod's node affinity" in said and "1 node(s) were unschedulable" in said

    eventually(refused, "the scheduler has refused the node of other memory")
    assert kubectl("uncordon", node_of[chosen]).code == 0
    eventually(lambda: running(control_plane.api.get("Pod", "pod-0", namespace)), "the pod runs")
    assert control_plane.api.get("Pod", "pod-0", namespace)["spec"]["nodeName"] == node_of[chosen]
