"""Replicas of real controllers: spread over nodes and GPUs, also after a restart."""

from testbed.controller_process import is_placed_by_controller
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import LABEL, labelled_pod

QUEUE = "clearml-agent-queue-name"
POLICIES = "limiter: none\n---\nkind: Queues\nqueues:\n  spread: {place: spread}"


def replica_set(name, queue, replicas, fraction="0.125"):
    labels = {LABEL: fraction, QUEUE: queue, "app": name}
    template = {"metadata": {"labels": labels}, "spec": labelled_pod("task")["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def pods_of(api, namespace, name):
    return api.list("Pod", namespace, labels=f"app={name}")


def index_of(pod):
    return int(pod["metadata"]["annotations"]["clearml-injector/gpu-index"])


def bound(api, namespace, name, count):
    """Node and index of a workload's pods, once so many are bound."""
    eventually(
        lambda: sum("nodeName" in pod["spec"] for pod in pods_of(api, namespace, name)) == count,
        f"{count} pods of {name} are bound",
    )
    return sorted((pod["spec"]["nodeName"], index_of(pod)) for pod in pods_of(api, namespace, name))


def scale(api, namespace, name, replicas):
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets/{name}"
    api.call("PATCH", path, {"spec": {"replicas": replicas}}, content="application/merge-patch+json")


def test_replicas_are_spread_over_nodes_then_gpus_also_by_a_controller_that_has_restarted(
    control_plane, namespace, nodes, serve
):
    first, second = sorted(nodes(GpuNode(gpus=2), GpuNode(gpus=2)))
    api = control_plane.api
    controller, webhook = serve(POLICIES)
    api.create(replica_set("packed", "other", 2), namespace)
    assert len(set(bound(api, namespace, "packed", 2))) == 1
    api.create(replica_set("web", "spread", 2), namespace)
    assert [node for node, _ in bound(api, namespace, "web", 2)] == [first, second]
    controller.kill()
    controller.start_again()
    controller.until_leading()
    eventually(lambda: is_placed_by_controller(api, namespace, webhook), "the controller places again")
    scale(api, namespace, "web", 4)
    every = [(node, index) for node in (first, second) for index in (0, 1)]
    assert bound(api, namespace, "web", 4) == every
