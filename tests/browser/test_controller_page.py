"""The controller's page on a real control plane, in a real browser."""

import json

import httpx
import pytest

from testbed.api import ApiError
from testbed.controller_process import SHORT_LEASE, Controller, install_crd, registered_webhook, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually, free_ports
from testbed.registration import labelled_pod
from tests.control_plane.conftest import built, control_plane, namespace, nodes

__all__ = ["built", "control_plane", "namespace", "nodes"]

LIVE = "#state:text-is('live')"
LONG = "-".join(["long"] * 50)
"""A name of 249 characters."""


@pytest.fixture(scope="module")
def start_controller(control_plane, tmp_path_factory):
    """Starts controllers that show a page; each ends with the module."""
    install_crd(control_plane.api)
    started = []

    def start(*options):
        folder = tmp_path_factory.mktemp("controller")
        more = [*SHORT_LEASE, "--page", f"--page-port={free_ports(1)[0]}", *options]
        tls = write_tls(folder / "tls")
        started.append(Controller(control_plane.kubeconfig, folder, tls, folder.name, more=more))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture(scope="module")
def controller(start_controller):
    """One whose page is on loopback."""
    return start_controller()


def gpu_pod(name, index=0, slices=4):
    limits = {f"nvidia.com/gpu-{index}": str(slices)}
    container = {"name": "task", "image": "example.com/task:1", "resources": {"limits": limits}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_pods_show_up_while_the_page_is_open_and_go_again(
    control_plane, namespace, nodes, controller, open_page
):
    [node] = nodes(GpuNode(gpus=2))
    tab = open_page(f"{controller.page}?node={node}").tab
    tab.wait_for_selector(LIVE)
    for name in ("one", LONG):
        control_plane.api.create(gpu_pod(name, index=1), namespace)
        found = tab.wait_for_selector(f".gpu[aria-label*='{namespace}/{name} 4 slices, 40 GiB']")
        assert f"{node} GPU 1;" in found.get_attribute("aria-label")
        found.hover()
        assert " s" in tab.inner_text("#shares")
        control_plane.api.delete("Pod", name, namespace)
        tab.wait_for_selector(f".gpu[aria-label^='{node} GPU 1; 8 of 8 slices free']")


def test_a_waiting_pod_is_shown_with_the_reason_in_words(
    control_plane, namespace, nodes, controller, open_page
):
    [node] = nodes(GpuNode())
    tab = open_page(controller.page).tab
    control_plane.api.create(gpu_pod("first", slices=6), namespace)
    tab.wait_for_selector(f".gpu[aria-label*='{namespace}/first']")
    control_plane.api.create(gpu_pod("second", slices=6), namespace)
    item = f"#waiting > li:has-text('{namespace}/second'):has-text('needs 6 slices of a GPU')"
    assert f"free now: {node}: 2" in tab.wait_for_selector(item).text_content()


def test_a_denied_pod_is_shown_with_its_reason_and_the_line_that_its_author_read(
    control_plane, namespace, nodes, controller, tmp_path
):
    nodes(GpuNode())
    controller.until_leading()
    with registered_webhook(control_plane.api, namespace, controller, tmp_path):
        with pytest.raises(ApiError, match="denied the request") as refused:
            control_plane.api.create(labelled_pod("greedy", "0.333"), namespace)
        shown = eventually(lambda: denied_in(controller, namespace), "the page tells of the denial")
    assert [each["reason"] for each in shown] == ["label-not-allowed"]
    assert shown[0]["pods"] >= 1
    assert shown[0]["message"] in str(refused.value)
    assert "greedy" not in str(shown)


def denied_in(controller, namespace):
    """Denials of a namespace in the first panels of the page's stream."""
    with httpx.stream("GET", f"{controller.page}stream", trust_env=False, timeout=60) as answer:
        line = next(line for line in answer.iter_lines() if "waiting_in_all" in line)
    panels = json.loads(line.removeprefix("data: "))
    return [each for each in panels["denials"] or () if each.get("namespace") == namespace]


def test_a_restart_of_the_controller_is_survived(control_plane, namespace, nodes, controller, open_page):
    [node] = nodes(GpuNode())
    tab = open_page(f"{controller.page}?node={node}").tab
    tab.wait_for_selector(LIVE)
    controller.process.stop()
    tab.wait_for_selector(".frozen")
    control_plane.api.create(gpu_pod("meanwhile"), namespace)
    controller.start_again()
    tab.wait_for_selector(f"body:not(.frozen) .gpu[aria-label*='{namespace}/meanwhile']")
