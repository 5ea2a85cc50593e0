"""The controller while the network, the API server and its own kind misbehave, on a real control plane."""

from contextlib import ExitStack

import pytest

from kube.names import GPU_LEDGERS_PATH
from testbed import components
from testbed.controller_process import Controller, gpu_ledger, install_crd, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.proxy import FAULTS, Proxy
from tests.control_plane.test_controller_ledger import gpu_pod


@pytest.fixture
def proxy(control_plane):
    with Proxy(control_plane.url, control_plane.home.ca_file) as between:
        yield between


@pytest.fixture
def start(control_plane, namespace, proxy, tmp_path):
    """Start controllers of one Lease, behind the proxy or past it: `start("a", through_proxy=True)`."""
    install_crd(control_plane.api)
    tls = write_tls(tmp_path / "tls")
    proxied = proxy.kubeconfig(tmp_path / "kubeconfig")
    with ExitStack() as stack:

        def one(name, *, through_proxy, **options):
            kubeconfig = proxied if through_proxy else control_plane.kubeconfig
            running = Controller(kubeconfig, tmp_path, tls, f"lease-{namespace}", name=name, **options)
            stack.callback(running.stop)
            return running

        yield one


def test_a_ledger_survives_every_fault_of_a_watch(control_plane, namespace, nodes, start, proxy):
    [node] = nodes(GpuNode(gpus=2))
    controller = start("a", through_proxy=True, more=["--watch-silence=1"])
    for number, fault in enumerate(FAULTS, 1):
        proxy.faults += [fault, fault]
        proxy.drop()
        control_plane.api.create(gpu_pod(f"pod-{number}", index=1, slices=1), namespace)
        eventually(lambda: not proxy.faults, f"both watches met {fault}")
        known = {1: number}
        eventually(lambda known=known: controller.taken().get(node) == known, f"all is known after {fault}")
    control_plane.api.delete_all("Pod", namespace)
    eventually(lambda: controller.taken().get(node) is None, "all is given back")


def test_an_api_server_that_went_away_and_came_back_is_followed_again(
    control_plane, namespace, nodes, start, proxy
):
    [node] = nodes(GpuNode(gpus=2))
    home, etcd_url = control_plane.home, control_plane.etcd_url
    first, proxy.upstream = components.start_apiserver(home, etcd_url, "goes-away")
    with first:
        controller = start("a", through_proxy=True)
        controller.until_leading()
    eventually(lambda: not controller.leads, "it stops leading")
    control_plane.api.create(gpu_pod("meanwhile"), namespace)
    proxy.upstream = control_plane.url
    eventually(lambda: controller.taken().get(node) == {0: 4}, "the pod of the meantime is known")
    eventually(lambda: controller.leads, "it leads again")
    eventually(lambda: (gpu_ledger(control_plane.api, node) or {}).get("used") == 4, "and publishes")


def test_a_leader_that_is_cut_off_stops_and_its_late_writes_lose(
    control_plane, namespace, nodes, start, proxy
):
    [node] = nodes(GpuNode(gpus=2))
    cut = start("cut", through_proxy=True)
    cut.until_leading()
    term = eventually(lambda: gpu_ledger(control_plane.api, node), "it publishes")["leaseTransition"]
    other = start("other", through_proxy=False)
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
    first = start("first", through_proxy=False, more=a_quarter_of_an_hour)
    first.until_leading()
    second = start("second", through_proxy=False, more=a_quarter_of_an_hour)
    eventually(lambda: second.place().json() == {"leader": first.url}, "the standby knows the leader")
    first.process.stop()
    second.until_leading()
    assert second.place().status_code == 200
    control_plane.api.create(gpu_pod("next"), namespace)
    eventually(lambda: (gpu_ledger(control_plane.api, node) or {}).get("used") == 4, "it publishes")


def test_a_gpu_ledger_that_is_deleted_edited_or_disowned_is_repaired(control_plane, namespace, nodes, start):
    [node] = nodes(GpuNode(gpus=2))
    start("a", through_proxy=False).until_leading()
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
