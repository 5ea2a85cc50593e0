"""Where the webhook's pods run, when they are rolled out and when a node is drained."""

import pytest

from testbed.api import ApiError
from testbed.chart import RELEASE
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE

pytestmark = pytest.mark.usefixtures("no_release_left")


def rolled_out(control_plane):
    """The webhook's pods when they are ready, and no other is left."""
    waited = control_plane.kubectl(
        f"--namespace={OWN_NAMESPACE}",
        "rollout",
        "status",
        "deployment",
        f"{RELEASE}-webhook",
        "--timeout=60s",
    )
    assert waited.code == 0, waited.stderr

    def both():
        found = control_plane.api.list("Pod", OWN_NAMESPACE, labels="app.kubernetes.io/component=webhook")
        pods = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return pods if len(pods) == 2 else None

    return eventually(both, "the replaced pods are gone")


def test_every_rollout_puts_the_pods_on_different_nodes(helm, control_plane, nodes):
    used = set(nodes(GpuNode(), GpuNode()))
    for rollout in ("first", "second"):
        helm.apply({"webhook": {"podAnnotations": {"rollout": rollout}}})
        pods = rolled_out(control_plane)
        assert {pod["metadata"]["annotations"]["rollout"] for pod in pods} == {rollout}
        assert {pod["spec"]["nodeName"] for pod in pods} == used


def test_the_pods_are_scheduled_and_survive_the_draining_of_a_node(helm, control_plane, nodes):
    [first, second] = nodes(GpuNode(), GpuNode())
    helm.apply({})
    pods = rolled_out(control_plane)
    assert {pod["spec"]["nodeName"] for pod in pods} == {first, second}
    assert {pod["spec"]["priority"] for pod in pods} == {1000000000}
    for node in (first, second):  # as kubectl drain does first: what is evicted finds no new place
        control_plane.api.patch("Node", node, {"spec": {"unschedulable": True}})
    refused = [evicted(control_plane.api, pod) for pod in pods]
    assert refused == [None, "Cannot evict pod as it would violate the pod's disruption budget."]


def evicted(api, pod):
    """Why a pod may not be evicted; None if it was."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    try:
        api.call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)
    except ApiError as error:
        return str(error)
    return None
