"""Nobody but the controller removes the scheduling gate of a pod that waits for a quota."""

import pytest

from cluster.kube_client import JSON_PATCH
from kube.names import QUOTA_GATE
from testbed.registration import OWN_NAMESPACE, labelled_pod
from tests.control_plane.admission_policies.support import refused
from tests.control_plane.test_chart_rbac import CONTROLLER

KEPT = (
    "schedulingGates: only the injector's controller removes clearml-injector/quota, "
    "when the pod's quota has room: wait, or delete the pod"
)
WAITING = "lock-waiting"
OURS, OTHERS = {"name": QUOTA_GATE}, {"name": "example.com/wait"}


@pytest.fixture
def gated(lock, control_plane):
    """A pod with a gate of somebody else and ours."""
    pod = labelled_pod("gated", "0.500", schedulingGates=[OTHERS, OURS])
    yield control_plane.api.create(pod, WAITING)
    control_plane.api.delete("Pod", "gated", WAITING)


def remove(api, gate):
    patch = [{"op": "remove", "path": f"/spec/schedulingGates/{gate}"}]
    path = f"/api/v1/namespaces/{WAITING}/pods/gated"
    return api.call("PATCH", path, patch, content=JSON_PATCH)


def test_a_user_cannot_remove_it_but_may_remove_others_and_delete_the_pod(gated, control_plane):
    assert [each["name"] for each in gated["spec"]["schedulingGates"]] == [OTHERS["name"], QUOTA_GATE]
    with refused("unchanged", KEPT):
        remove(control_plane.api, 1)
    with refused("unchanged", KEPT):
        patch = {"spec": {"schedulingGates": None}}
        control_plane.api.patch("Pod", "gated", patch, WAITING)
    assert remove(control_plane.api, 0)["spec"]["schedulingGates"] == [OURS]
    with refused("unchanged", KEPT):
        remove(control_plane.api, 0)


def test_labels_of_others_may_change_while_it_waits(gated, control_plane):
    changed = control_plane.api.patch("Pod", "gated", {"metadata": {"labels": {"team": "a"}}}, WAITING)
    assert changed["metadata"]["labels"]["team"] == "a"


def test_the_controller_removes_it(gated, control_plane):
    patch = '--patch=[{"op": "remove", "path": "/spec/schedulingGates/1"}]'
    command = "patch", "pod", "gated", f"--namespace={WAITING}", "--type=json", patch
    account = f"--as=system:serviceaccount:%s:{CONTROLLER}", "--as-group=system:masters"
    another = control_plane.kubectl(*command, account[0] % "default", account[1])
    assert (another.code, KEPT in another.stderr) == (1, True), "a namesake elsewhere"
    assert control_plane.kubectl(*command, account[0] % OWN_NAMESPACE, account[1]).code == 0
    assert control_plane.api.get("Pod", "gated", WAITING)["spec"]["schedulingGates"] == [OTHERS]
