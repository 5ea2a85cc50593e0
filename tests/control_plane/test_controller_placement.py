"""Webhook and controllers on a real control plane: who places, and what happens when it goes away."""

from collections import Counter
from functools import partial

import httpx
import pytest

from testbed.certificate_files import write_tls
from testbed.controller_process import (
    DEGRADED,
    client_context,
    gpu_ledger,
    is_placed_by_controller,
    registered_webhook,
)
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.proxy import Proxy
from testbed.registration import labelled_pod
from tests.control_plane.test_controller_ledger import gpu_pod

USED = "fraction_injector_snapshot_slices_allocated"
"""What the webhook knows of; of all nodes of the API server that tests share."""


def degraded(webhook):
    """Pods that the webhook has placed without the controller."""
    return webhook.figure(DEGRADED)


def create(control_plane, namespace, names, fraction="0.125", **spec):
    """Create labelled pods; give the names of those that were refused, with the words."""
    pods = {name: labelled_pod(name, fraction, terminationGracePeriodSeconds=0, **spec) for name in names}
    said = {name: control_plane.api.refusal(pods[name], namespace, dry_run=False) for name in names}
    return {name: text for name, text in said.items() if text}


def bound(control_plane, namespace):
    """(node, index, MiB) of every pod that has a node."""
    pods = control_plane.api.list("Pod", namespace)
    notes = [(pod["spec"].get("nodeName"), pod["metadata"]["annotations"]) for pod in pods]
    return [
        (node, int(note["clearml-injector/gpu-index"]), int(note["clearml-injector/memory-mib"]))
        for node, note in notes
        if node
    ]


def test_only_our_own_certificates_get_an_answer_on_any_route(start, tmp_path):
    controller = start("a")
    stranger = client_context(write_tls(tmp_path / "stranger"))
    stranger.load_verify_locations(str(controller.tls / "ca.crt"))
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{controller.url}/v1/policies", verify=stranger, trust_env=False, timeout=60)
    another = client_context(write_tls(tmp_path / "another", start.authority, ("database.example.com",)))
    routes = ("/v1/ledger/stream", "/v1/policies", "/v1/placements", "/nothing")
    with httpx.Client(base_url=controller.url, verify=another, trust_env=False, timeout=60) as client:
        assert [client.get(path).status_code for path in routes] == [403] * 4
    assert controller.ledger().nodes is not None


def test_no_create_fails_while_the_leader_dies_and_another_takes_over(
    control_plane, namespace, nodes, start, tmp_path
):
    # Far more room than pods: those placed without a leader may go by an older snapshot.
    nodes(*[GpuNode(gpus=8)] * 16)
    first = start("a")
    first.until_leading()
    second = start("b")
    with registered_webhook(control_plane.api, namespace, second, tmp_path):
        refused = create(control_plane, namespace, [f"before-{i}" for i in range(20)])
        first.kill()
        number = 0
        while not second.leads:
            refused |= create(control_plane, namespace, [f"during-{number}"])
            number += 1
        refused |= create(control_plane, namespace, [f"after-{i}" for i in range(20)])
        assert refused == {}
        total = 40 + number
        eventually(lambda: len(bound(control_plane, namespace)) == total, "all pods are bound")
        expected = Counter((node, index) for node, index, _ in bound(control_plane, namespace))

        def ledger():
            own = {name for name, _ in expected}
            return {(n, i): s for n, gpus in second.taken().items() if n in own for i, s in gpus.items()}

        eventually(lambda: ledger() == expected, "the new leader's ledger is the cluster's truth")


def test_without_a_controller_pods_are_placed_by_capacity_and_marked(control_plane, namespace, nodes, serve):
    [node] = nodes(GpuNode(gpus=2))
    controller, webhook = serve()
    already = webhook.figure(USED)
    assert create(control_plane, namespace, ["with"], "0.875") == {}
    eventually(lambda: controller.taken().get(node) == {0: 7}, "the ledger has it")
    eventually(lambda: webhook.figure(USED) == already + 7, "the webhook knows of it")
    before = degraded(webhook)
    controller.kill()
    assert create(control_plane, namespace, ["without"], "0.500") == {}
    assert degraded(webhook) > before
    eventually(lambda: len(bound(control_plane, namespace)) == 2, "both are bound")
    assert sorted(index for _, index, _ in bound(control_plane, namespace)) == [0, 1]
    controller.start_again()
    controller.until_leading()

    normal = partial(is_placed_by_controller, control_plane.api, namespace, webhook)
    eventually(normal, "the controller places again")


@pytest.fixture
def proxy(control_plane):
    """Between a controller and the API server."""
    with Proxy(control_plane.url, control_plane.home.ca_file) as between:
        yield between


def test_a_leader_that_is_cut_off_stops_and_its_late_writes_lose(  # noqa: PLR0913, PLR0917 fixtures
    control_plane, namespace, nodes, start, proxy, tmp_path
):
    [node] = nodes(GpuNode(gpus=2))
    cut = start("cut", kubeconfig=proxy.kubeconfig(tmp_path / "proxied"))
    cut.until_leading()
    term = eventually(lambda: gpu_ledger(control_plane.api, node), "it publishes")["leaseTransition"]
    other = start("other")
    proxy.hold()
    control_plane.api.create(gpu_pod("late"), namespace)
    eventually(lambda: cut.taken().get(node) == {0: 4}, "it still sees, and would write")
    eventually(lambda: cut.place().status_code == 409, "it stops placing")
    other.until_leading()

    def written():
        status = gpu_ledger(control_plane.api, node)
        return (status["leaseTransition"], status["used"])

    eventually(lambda: written() == (term + 1, 4), "the other has written")
    control_plane.api.create(gpu_pod("later", index=1), namespace)
    eventually(lambda: written() == (term + 1, 8), "and goes on")
    proxy.release()
    eventually(lambda: any("422" in line for line in proxy.late), "the late GpuLedger was refused")
    eventually(lambda: cut.place().json()["leader"] == other.url, "it knows the leader")
    assert written() == (term + 1, 8)
