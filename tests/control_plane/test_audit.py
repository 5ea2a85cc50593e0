"""The kubelet's books against the ledger on a real API server: what lasts is reported, and no more."""

import re

import pytest

from kube.names import GPU_NODES_PATH
from testbed.controller_process import SHORT_LEASE, Controller, install_crd, write_tls
from testbed.gpu_nodes import GpuNode, schedulable
from testbed.process import eventually

SECONDS = 180


@pytest.fixture
def node(control_plane, namespace):
    """A node whose agent says that the kubelet holds five slices, of which the ledger knows nothing."""
    install_crd(control_plane.api)
    control_plane.api.create(GpuNode().manifest(namespace))
    eventually(lambda: schedulable(control_plane.api.get("Node", namespace)), "the node is ready")
    card = {"index": 0, "uuid": "GPU-a", "model": "A100", "memoryMiB": 81920, "healthy": True, "mig": False}
    body = {
        "apiVersion": "clearml-injector.io/v1alpha1",
        "kind": "GpuNode",
        "metadata": {"name": namespace},
        "status": {"registered": True, "gpus": [{**card, "heldSlices": 5, "heldPods": 1}]},
    }
    query = {"fieldManager": "test", "force": "true"}
    path = f"{GPU_NODES_PATH}/{namespace}"
    control_plane.api.call("PATCH", path, body, query, "application/apply-patch+yaml")
    yield namespace
    control_plane.kubectl("delete", "node", namespace)


def test_a_difference_that_lasts_is_an_event_on_the_node(node, control_plane, tmp_path):
    tls = write_tls(tmp_path / "tls")
    controller = Controller(control_plane.kubeconfig, tmp_path, tls, f"audit-{node}", more=SHORT_LEASE)

    def messages():
        return [each["message"] for each in control_plane.api.events("default", node, "AuditDifference")]

    try:
        [message] = eventually(messages, "the difference is reported", SECONDS)
        counted = controller.plain("/metrics")
    finally:
        controller.stop()
    assert message.startswith("GPU 0: the kubelet counts 5 slices of 1 pods, the ledger counts 0:")
    # Of all nodes of the API server that tests share: this one's difference is among them.
    [differences] = re.findall(r"^fraction_injector_audit_differences (\d+)\.0$", counted, re.MULTILINE)
    assert int(differences) >= 1
    assert control_plane.api.get("Node", node)["spec"].get("taints", []) == []
