"""The controller while the network, the API server and its own kind misbehave, on a real control plane."""

import pytest

from kube.names import GPU_LEDGERS_PATH
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


def test_a_leader_that_is_asked_to_end_hands_over_long_before_its_lease_is_over(
    control_plane, namespace, nodes, start
):
    [node] = nodes(GpuNode(gpus=2))
    a_quarter_of_an_hour = ["--lease-duration=900", "--renew-deadline=800", "--lease-retry=100"]
    first = start("first", *a_quarter_of_an_hour)
    first.until_leading()
    second = start("second", *a_quarter_of_an_hour)
    eventually(lambda: second.place().json() == {"leader": first.url}, "the standby knows the leader")
    first.process.stop()
    second.until_leading()
    assert second.place().status_code == 200
    control_plane.api.create(gpu_pod("next"), namespace)
    eventually(lambda: (gpu_ledger(control_plane.api, node) or {}).get("used") == 4, "it publishes")


def test_a_gpu_ledger_that_is_deleted_edited_or_disowned_is_repaired(control_plane, namespace, nodes, start):
    [node] = nodes(GpuNode(gpus=2))
    start("a").until_leading()
    control_plane.api.create(gpu_pod("one"), namespace)
    eventually(lambda: (gpu_ledger(control_plane.api, node) or {}).get("used") == 4, "it is published")
    path, api = f"{GPU_LEDGERS_PATH}/{node}", control_plane.api
    merge = "application/merge-patch+json"
    api.call("PATCH", f"{path}/status", {"status": {"used": 0, "gpus": []}}, content=merge)
    eventually(lambda: (gpu_ledger(api, node) or {}).get("used") == 4, "the edit is reverted")
    api.call("PATCH", path, {"metadata": {"ownerReferences": None}}, content=merge)
    eventually(lambda: api.call("GET", path)["metadata"].get("ownerReferences"), "the Node owns it again")
    api.call("DELETE", path)
    eventually(lambda: (gpu_ledger(api, node) or {}).get("used") == 4, "it is there again")
