"""The controller's ledger on a real control plane: it follows every way that pods and nodes come and go."""

import json

import pytest

from testbed.api import ApiError
from testbed.certificate_files import write_tls
from testbed.controller_process import Controller, gpu_ledger, install_crd
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually


@pytest.fixture(scope="module")
def controller(control_plane, tmp_path_factory):
    """One controller that leads, for the whole module."""
    folder = tmp_path_factory.mktemp("controller")
    install_crd(control_plane.api)
    running = Controller(control_plane.kubeconfig, folder, write_tls(folder / "tls"), folder.name)
    running.until_leading()
    yield running
    running.stop()


def gpu_pod(name, index=0, slices=4, **spec):
    limits = {f"nvidia.com/gpu-{index}": str(slices)}
    container = {"name": "task", "image": "example.com/task:1", "resources": {"limits": limits}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def taken(controller, node):
    return controller.taken().get(node, {})


def test_a_pod_holds_its_slices_until_it_has_finished_or_is_gone(control_plane, namespace, nodes, controller):
    [node], api = nodes(GpuNode(gpus=2)), control_plane.api
    slow = gpu_pod("slow", index=1)
    slow["metadata"]["finalizers"] = ["control-plane.test/slow"]
    for pod in (gpu_pod("ends", restartPolicy="Never"), slow):
        api.create(pod, namespace)
    eventually(lambda: taken(controller, node) == {0: 4, 1: 4}, "both pods hold their slices")
    api.patch("Pod", "ends", {"metadata": {"annotations": {"control-plane.test/ends": "true"}}}, namespace)
    api.delete("Pod", "slow", namespace)
    eventually(lambda: taken(controller, node) == {1: 4}, "who has finished holds nothing, who ends does")
    api.patch("Pod", "slow", {"metadata": {"finalizers": None}}, namespace)
    eventually(lambda: taken(controller, node) == {}, "nobody holds anything")


def test_kubectl_shows_gpu_ledgers_as_a_table(control_plane, namespace, nodes, controller, kubectl):
    [node] = nodes(GpuNode(gpus=2))
    control_plane.api.create(gpu_pod("holder", slices=3), namespace)
    eventually(lambda: (gpu_ledger(control_plane.api, node) or {}).get("used") == 3, "3 slices are used")
    header, row = kubectl("get", "gpuledgers", node).stdout.splitlines()
    of_cards = ["CARDS", "CLAIMED-MIB", "FREE-MIB"]
    assert header.split() == ["NAME", "GPUS", "ALLOCATED", "FREE", "LARGEST-FREE", "OVER", *of_cards, "AGE"]
    assert row.split()[:-1] == [node, "2", "3", "13", "8", "0"]
    stored = json.loads(kubectl("get", "gpuledgers", node, "--output=json").stdout)
    assert stored["metadata"]["ownerReferences"][0]["kind"] == "Node"
    conditions = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
    assert conditions == {"Usable": "True", "OverCommitted": "False", "TakesFractions": "True"}
    holder = {"namespace": namespace, "name": "holder", "kind": "holder", "slices": 3}
    assert stored["status"]["gpus"][0]["shares"] == [holder]


def test_a_write_of_an_earlier_term_is_refused(control_plane, nodes, controller):
    [node] = nodes(GpuNode())
    status = eventually(lambda: gpu_ledger(control_plane.api, node), "the GpuLedger is there")
    late = {"status": {"leaseTransition": status["leaseTransition"] - 1, "used": 7}}
    path = f"/apis/clearml-injector.io/v1alpha1/gpuledgers/{node}/status"
    with pytest.raises(ApiError, match="a leader of an earlier term may not overwrite a later one"):
        control_plane.api.call("PATCH", path, late, content="application/merge-patch+json")
