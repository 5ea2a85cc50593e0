"""All that the controller writes in its life passes the policy that holds its token."""

import asyncio

import pytest

from cluster.kube_client import JSON_PATCH, connected
from controller.geometry.mig_manager import MigManager
from controller.watch.agent_taint import NodeTaints, hold_patch
from kube.names import MIG_CHANGE_ANNOTATION
from testbed.chart import RELEASE
from testbed.mounts import SecretMounts
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.control_plane.agent_reports import forget, report
from tests.control_plane.controller_writes.support import CHANGE, OTHER, OURS, VALUES, why_refused
from tests.control_plane.test_chart_rbac import CONTROLLER, kubeconfig_of, refusals, running
from tests.control_plane.test_mig_geometry import CONFIG_MAP, MigNode, create, until_running


def controller_connected(control_plane, folder):
    """The controller's client, with its token."""
    return connected(kubeconfig_of(control_plane, CONTROLLER, folder / "kubeconfig"))


def test_the_controller_holds_nodes_with_thousands_of_labels_and_annotations(stolen, make_node):
    many = {f"example.com/{n}": "x" for n in range(5000)}
    path = make_node(labels=many, annotations=many, taints=[OTHER])
    patch = hold_patch(NodeTaints(count=1))
    assert why_refused(stolen, "PATCH", path, patch, JSON_PATCH) == (200, "")


def test_the_controller_takes_its_cordon_back_from_a_node_that_others_uncordoned_or_took_over(
    control_plane, stolen, make_node, tmp_path
):
    begun = {MIG_CHANGE_ANNOTATION: CHANGE}
    paths = [make_node(annotations=begun), make_node(annotations=begun, labels={}, unschedulable=True)]

    async def main():
        async with controller_connected(control_plane, tmp_path) as api:
            for path in paths:
                await MigManager(api, OWN_NAMESPACE, CONFIG_MAP).uncordon(path.rpartition("/")[2], None)

    asyncio.run(main())
    for path in paths:
        found = control_plane.api.call("GET", path)
        assert MIG_CHANGE_ANNOTATION not in found["metadata"]["annotations"]
        assert not found["spec"].get("unschedulable")


@pytest.fixture
def mounted(control_plane, stolen, tmp_path):
    """The chart's Secret as the kubelet mounts it."""
    with SecretMounts(control_plane.api, f"{RELEASE}-tls", OWN_NAMESPACE, tmp_path / "tls"):
        yield tmp_path / "tls"


def test_a_controller_process_does_all_of_it_with_its_own_token(
    control_plane, helm, mounted, make_node, tmp_path
):
    api, card = control_plane.api, MigNode(control_plane, OWN_NAMESPACE)
    path = make_node(labels={"nvidia.com/gpu.present": "true"}, taints=[OTHER])

    def is_held():
        return OURS in api.call("GET", path)["spec"].get("taints", [])

    try:
        with running(control_plane, helm, VALUES, mounted, tmp_path) as log:
            create(api, OWN_NAMESPACE, "large", "4g.20gb")
            until_running(card, "large")
            eventually(is_held, "a node without an agent is held")
            report(control_plane, path.rpartition("/")[2])
            eventually(lambda: not is_held(), "it is let go when its agent serves")
            forget(control_plane, path.rpartition("/")[2])
    finally:
        card.stop()
        api.delete("Pod", "large", OWN_NAMESPACE)
        api.delete("ConfigMap", CONFIG_MAP, OWN_NAMESPACE)
    assert OTHER in api.call("GET", path)["spec"]["taints"]
    assert refusals(log) == []
