"""The controller while the network, the API server and its own kind misbehave, on a real control plane."""

import pytest

from testbed.controller_process import gpu_ledger
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.proxy import Proxy
from tests.control_plane.test_controller_ledger import gpu_pod


@pytest.fixture
def proxy(control_plane, tmp_path):
    """Between a controller and the API server, and the kubeconfig that leads there."""
    with Proxy(control_plane.url, control_plane.home.ca_file) as between:
        yield between, between.kubeconfig(tmp_path / "proxied")


def test_a_leader_that_is_cut_off_stops_and_its_late_writes_lose(
    control_plane, namespace, nodes, start, proxy
):
    [node], (proxy, behind) = nodes(GpuNode(gpus=2)), proxy
    cut = start("cut", kubeconfig=behind)
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
