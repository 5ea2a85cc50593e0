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


def create(control_plane, namespace, names):
    """Create labelled pods; give the names of those that were refused, with the words."""
    pods = {name: labelled_pod(name, "0.125", terminationGracePeriodSeconds=0) for name in names}
    said = {name: control_plane.api.refusal(pods[name], namespace, dry_run=False) for name in names}
    return {name: text for name, text in said.items() if text}


def bound(control_plane, namespace):
    """(node, index) of every pod that has a node."""
    pods = control_plane.api.list("Pod", namespace)
    notes = [(pod["spec"].get("nodeName"), pod["metadata"]["annotations"]) for pod in pods]
    return [(node, int(note["clearml-injector/gpu-index"])) for node, note in notes if node]


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
    with registered_webhook(control_plane.api, namespace, second, tmp_path) as webhook:
        refused = create(control_plane, namespace, [f"before-{i}" for i in range(20)])
        degraded = webhook.figure(DEGRADED)
        first.kill()
        number = 0
        while not second.leads:
            refused |= create(control_plane, namespace, [f"during-{number}"])
            number += 1
        assert webhook.figure(DEGRADED) > degraded
        normal = partial(is_placed_by_controller, control_plane.api, namespace, webhook)
        eventually(normal, "the new leader places")
        refused |= create(control_plane, namespace, [f"after-{i}" for i in range(20)])
        assert refused == {}
        total = 40 + number
        eventually(lambda: len(bound(control_plane, namespace)) == total, "all pods are bound")
        expected = Counter(bound(control_plane, namespace))

        def ledger():
            own = {name for name, _ in expected}
            return {(n, i): s for n, gpus in second.taken().items() if n in own for i, s in gpus.items()}

        eventually(lambda: ledger() == expected, "the new leader's ledger is the cluster's truth")


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
