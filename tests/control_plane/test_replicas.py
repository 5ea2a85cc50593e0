"""Replicas of real controllers: spread over nodes and GPUs, also after a restart."""

from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from certs.authority import make_authority
from testbed.controller_process import SHORT_LEASE, Controller, install_crd, registered_webhook, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import LABEL, labelled_pod

QUEUE = "clearml-agent-queue-name"
POLICIES = """
kind: Policy
name: default
limiter: none
---
kind: Queues
queues:
  spread: {place: spread}
"""


@contextmanager
def product(control_plane, namespace, folder):
    """A webhook that asks a controller; gives what starts that controller, and starts it again."""
    install_crd(control_plane.api)
    policies = folder / "policies"
    policies.mkdir()
    (policies / "policies.yaml").write_text(POLICIES)
    tls = write_tls(folder / "tls", make_authority(datetime.now(UTC)))
    with ExitStack() as stack:

        def start():
            options = {"lease": f"replicas-{namespace}", "more": SHORT_LEASE}
            controller = Controller(control_plane.kubeconfig, folder, tls, **options)
            stack.callback(controller.stop)
            controller.until_leading()
            return controller

        def ask(controller):
            webhook = stack.enter_context(ExitStack())
            webhook.enter_context(
                registered_webhook(control_plane.api, namespace, controller, folder, policies)
            )
            return webhook

        yield start, ask


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
    control_plane, namespace, nodes, tmp_path
):
    first, second = sorted(nodes(GpuNode(gpus=2), GpuNode(gpus=2)))
    api = control_plane.api
    with product(control_plane, namespace, tmp_path) as (start, ask):
        controller = start()
        asked = ask(controller)
        api.create(replica_set("packed", "other", 2), namespace)
        assert len(set(bound(api, namespace, "packed", 2))) == 1
        api.create(replica_set("web", "spread", 2), namespace)
        assert [node for node, _ in bound(api, namespace, "web", 2)] == [first, second]
        asked.close()
        controller.stop()
        ask(start())
        scale(api, namespace, "web", 4)
        every = [(node, index) for node in (first, second) for index in (0, 1)]
        assert bound(api, namespace, "web", 4) == every
