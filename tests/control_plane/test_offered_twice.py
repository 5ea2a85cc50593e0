"""A node whose GPUs NVIDIA's DRA driver and a device plugin both offer, on a real control plane."""

from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from kube.names import RESOURCE_SLICES_PATH
from testbed.controller_process import Controller, gpu_ledger, install_crd, registered_webhook, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.process import eventually
from tests.control_plane.agent_reports import forget, report
from tests.control_plane.test_agent_placement import card
from tests.control_plane.test_controller_placement import bound, create

SHOWN = "fraction_injector_nodes_offered_twice 1.0"
serves_slices = pytest.mark.skipif(
    not HAS_RESOURCE_CLAIMS, reason="this Kubernetes does not serve resource.k8s.io/v1"
)


@pytest.fixture
def controller(control_plane, namespace, tmp_path):
    install_crd(control_plane.api)
    tls = write_tls(tmp_path / "tls", make_authority(datetime.now(UTC)))
    with Controller(control_plane.kubeconfig, tmp_path, tls, f"twice-{namespace}") as running:
        running.until_leading()
        yield running


@pytest.fixture
def webhook(control_plane, namespace, controller, tmp_path):
    with registered_webhook(control_plane.api, namespace, controller, tmp_path) as running:
        yield running


@pytest.fixture
def offer(control_plane):
    """Write a ResourceSlice as NVIDIA's driver does: `offer("gpu-0", "GPU-0", "GPU-1")`."""
    api, written = control_plane.api, []

    def write(node, *uuids):
        spec = {
            "driver": "gpu.nvidia.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [device(number, uuid) for number, uuid in enumerate(uuids)],
        }
        name = f"{node}-gpu.nvidia.com-x7"
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": spec,
        }
        api.call("POST", RESOURCE_SLICES_PATH, body)
        written.append(name)
        return lambda: withdraw(name)

    def withdraw(name):
        api.call("DELETE", f"{RESOURCE_SLICES_PATH}/{name}")
        written.remove(name)

    yield write
    for name in tuple(written):
        withdraw(name)


def device(number, uuid):
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": uuid},
        "driverVersion": {"version": "580.126.20"},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def takes_fractions(control_plane, node):
    """Status, reason and message of the condition."""
    status = gpu_ledger(control_plane.api, node) or {}
    found = [each for each in status.get("conditions", []) if each["type"] == "TakesFractions"]
    return [(each["status"], each["reason"], each["message"]) for each in found]


def is_out(control_plane, node):
    return [condition[:2] for condition in takes_fractions(control_plane, node)] == [
        ("False", "OfferedTwice")
    ]


@serves_slices
@pytest.mark.usefixtures("webhook")
def test_no_pod_gets_to_such_a_node_until_the_driver_withdraws(
    control_plane, namespace, nodes, controller, offer
):
    labels, selector = {"pool": namespace}, {"nodeSelector": {"pool": namespace}}
    twice, once = nodes(GpuNode(gpus=1, labels=labels), GpuNode(gpus=1, labels=labels))
    assert create(control_plane, namespace, ["before"], "0.500", **selector) == {}
    [(first, _, _)] = eventually(lambda: bound(control_plane, namespace), "the first pod is bound")
    if first != twice:
        twice, once = once, twice
    withdraw = offer(twice, "GPU-0")
    eventually(lambda: is_out(control_plane, twice), "the GpuLedger says that its GPUs are offered twice")
    [(_, _, what)] = takes_fractions(control_plane, twice)
    assert f"kubectl get resourceslices --field-selector spec.nodeName={twice}" in what
    assert SHOWN in controller.plain("/metrics")
    [event] = eventually(
        lambda: control_plane.api.events("default", twice, "OfferedTwice"), "an Event on the node says it"
    )
    assert event["message"] == what

    # Two halves fill the other GPU. The third waits, although the scheduler counts half a GPU as free.
    assert create(control_plane, namespace, ["a", "b", "waits"], "0.500", **selector) == {}
    eventually(lambda: len(bound(control_plane, namespace)) == 3, "two more are bound")
    eventually(
        lambda: is_refused(control_plane, namespace, "waits"), "the scheduler finds no node for the third"
    )
    assert sorted(node for node, _, _ in bound(control_plane, namespace)) == sorted([twice, once, once])
    [line] = [each for each in controller.ledger().ledger.nodes if each.name == twice]
    assert [(gpu.used, gpu.offered_twice) for gpu in line.gpus] == [(4, True)]

    withdraw()
    eventually(lambda: not is_out(control_plane, twice), "the node takes fractions again")
    assert create(control_plane, namespace, ["after"], "0.500", **selector) == {}
    eventually(lambda: len(bound(control_plane, namespace)) == 4, "the next pod is bound")
    assert sorted(node for node, _, _ in bound(control_plane, namespace)) == sorted([twice, once] * 2)


def is_refused(control_plane, namespace, name):
    """Whether the scheduler has looked for a node and found none."""
    status = control_plane.api.get("Pod", name, namespace).get("status", {})
    return any(each.get("reason") == "Unschedulable" for each in status.get("conditions", []))


@serves_slices
@pytest.mark.usefixtures("webhook")
def test_where_the_agent_names_the_cards_only_those_of_the_driver_are_left_out(
    control_plane, namespace, nodes, controller, offer
):
    labels, selector = {"pool": namespace}, {"nodeSelector": {"pool": namespace}}
    [node] = nodes(GpuNode(gpus=2, labels=labels))
    report(control_plane, node, gpus=[card(index, "NVIDIA A100-SXM4-80GB", 81920) for index in (0, 1)])
    offer(node, "GPU-0")
    eventually(lambda: SHOWN in controller.plain("/metrics"), "the metric counts the node")
    assert create(control_plane, namespace, ["a", "b"], "0.500", **selector) == {}
    eventually(lambda: len(bound(control_plane, namespace)) == 2, "both are bound")
    assert [index for _, index, _ in bound(control_plane, namespace)] == [1, 1]
    forget(control_plane, node)


@serves_slices
@pytest.mark.usefixtures("webhook")
def test_a_pod_that_no_other_node_could_hold_is_refused_with_what_to_do(
    control_plane, namespace, nodes, offer
):
    labels, selector = {"pool": namespace}, {"nodeSelector": {"pool": namespace}}
    [node] = nodes(GpuNode(gpus=1, labels=labels))
    offer(node, "GPU-0")
    eventually(lambda: is_out(control_plane, node), "the node is left out")
    [refusal] = create(control_plane, namespace, ["refused"], "0.500", **selector).values()
    assert "on 1 node a DRA driver offers the same GPUs as the device plugin: ask the admin" in refusal


@pytest.mark.oldest_kubernetes  # resource.k8s.io/v1 is new in 1.34
def test_a_cluster_that_serves_no_resource_slices_is_followed_quietly(
    control_plane, namespace, nodes, controller
):
    [node] = nodes(GpuNode(gpus=1))
    eventually(lambda: gpu_ledger(control_plane.api, node), "the node is published")
    troubles = [
        line
        for line in controller.plain("/metrics").splitlines()
        if line.startswith("fraction_injector_watch_errors_total") and "resourceslices" in line
    ]
    assert len(troubles) == 4
    assert all(line.endswith(" 0.0") for line in troubles)
    assert ("does not serve it" in controller.log.read_text()) is not HAS_RESOURCE_CLAIMS
