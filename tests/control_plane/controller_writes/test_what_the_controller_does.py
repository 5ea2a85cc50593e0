"""All that the controller writes in its life passes the policy that holds its token."""

import asyncio
import base64
from contextlib import asynccontextmanager

import pytest

from certs.observation import SecretContent
from cluster.kube_client import JSON_PATCH, connect
from controller.certificates.store import CertificateStore, Installation
from controller.geometry.mig_manager import MigManager
from controller.policies.policy_delivery import PolicyDelivery
from controller.watch.agent_taint import NodeTaints, hold_patch, release_patch, taints_of
from kube.names import (
    CERTIFICATE_ANNOTATION,
    MIG_CHANGE_ANNOTATION,
    POLICIES_ANNOTATION,
)
from kube.scheduling import Taint
from testbed.chart import ADMISSION, CONFIGURATION, RELEASE
from testbed.gpu_nodes import schedulable
from testbed.mounts import SecretMounts
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.control_plane.agent_reports import forget, report
from tests.control_plane.controller_writes.support import (
    CHANGE,
    OTHER,
    OURS,
    VALUES,
    why_refused,
)
from tests.control_plane.test_chart_rbac import CONTROLLER, kubeconfig_of, refusals, running
from tests.control_plane.test_mig_geometry import CONFIG_MAP, MigNode, create, until_running


@asynccontextmanager
async def connected(control_plane, folder):
    """The controller's client, with its token."""
    api = await connect(kubeconfig_of(control_plane, CONTROLLER, folder / "kubeconfig"))
    try:
        yield api
    finally:
        await api.close()


@pytest.mark.parametrize("known", [[], [OTHER], [OTHER, {**OURS, "effect": "NoExecute"}]], ids=len)
def test_the_controller_holds_nodes_and_lets_them_go(control_plane, stolen, make_node, tmp_path, known):
    path = make_node(taints=known)
    # The taint of a new node goes first, for which a patch by place would be refused.
    eventually(lambda: schedulable(control_plane.api.call("GET", path)), "the node is ready")

    def found():
        taints = control_plane.api.call("GET", path)["spec"].get("taints", [])
        return taints_of([Taint(each["key"], each["effect"]) for each in taints])

    async def main():
        async with connected(control_plane, tmp_path) as api:
            await api.request("PATCH", path, body=hold_patch(found()), content_type=JSON_PATCH)
            held = found()
            await api.request("PATCH", path, body=release_patch(held.ours), content_type=JSON_PATCH)
            return held, found()

    held, released = asyncio.run(main())
    assert (held.count, held.ours, released.count, released.ours) == (
        len(known) + 1,
        len(known),
        len(known),
        None,
    )


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
        async with connected(control_plane, tmp_path) as api:
            for path in paths:
                await MigManager(api, OWN_NAMESPACE, CONFIG_MAP).uncordon(path.rpartition("/")[2], None)

    asyncio.run(main())
    for path in paths:
        found = control_plane.api.call("GET", path)
        assert MIG_CHANGE_ANNOTATION not in found["metadata"]["annotations"]
        assert not found["spec"].get("unschedulable")


def test_the_controller_writes_the_ca_and_touches_its_pods(control_plane, stolen, own_pod, tmp_path):
    async def main():
        async with connected(control_plane, tmp_path) as api:
            store = CertificateStore(api, Installation(OWN_NAMESPACE, RELEASE))
            for pem in (b"one", b"one\ntwo"):
                await store.write_bundle(pem, await store.read_bundle())
            await store.deliver(SecretContent({}, {}))

    asyncio.run(main())
    [entry] = control_plane.api.get(CONFIGURATION, RELEASE, api=ADMISSION)["webhooks"]
    assert base64.b64decode(entry["clientConfig"]["caBundle"]) == b"one\ntwo"
    assert CERTIFICATE_ANNOTATION in control_plane.api.call("GET", own_pod)["metadata"]["annotations"]


def test_the_controller_touches_its_pods_when_the_policies_change(
    control_plane, stolen, helm, own_pod, tmp_path
):
    marks = []

    async def main():
        async with connected(control_plane, tmp_path) as api:
            delivery = PolicyDelivery(api, OWN_NAMESPACE, f"{RELEASE}-policies")
            for values in (VALUES, {**VALUES, "queues": {"new": {"place": "spread"}}}):
                await asyncio.to_thread(helm.apply, values)
                for _ in range(2):
                    await delivery.check()
                marks.append(control_plane.api.call("GET", own_pod)["metadata"]["annotations"])

    asyncio.run(main())
    helm.apply(VALUES)
    first, second = [found[POLICIES_ANNOTATION] for found in marks]
    assert first != second
    stored = control_plane.api.get("ConfigMap", f"{RELEASE}-policies", OWN_NAMESPACE)
    assert int(first) < int(second) < int(stored["metadata"]["resourceVersion"])


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
