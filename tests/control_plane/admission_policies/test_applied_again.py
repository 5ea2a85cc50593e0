"""A manifest that is applied while its pod is there, and updates that must not need the webhook."""

from pathlib import Path

import pytest

from testbed.api import ApiError
from testbed.process import eventually
from testbed.product import decides
from testbed.registration import LABEL, labelled_pod, probe

MANIFESTS = Path(__file__).parents[2] / "fixtures" / "manifests"
DENIED = (
    'admission webhook "fractions.clearml-injector.io" denied the request: the pod already exists, and '
    "its containers cannot change in this way: delete it, then create it again "
    "(a ClearML task: enqueue it when its pod is gone)"
)
STRATEGIC = "application/strategic-merge-patch+json"
APPLY_AGAIN = ["clearml-half", "clearml-legacy-4-of-8"]


@pytest.mark.parametrize("name", APPLY_AGAIN)
def test_a_task_that_is_enqueued_again_is_denied_in_one_line(lock, kubectl, name):
    file = f"--filename={MANIFESTS / name}.yaml"
    first = kubectl("apply", file)
    assert (first.code, first.stderr) == (0, "")
    again = kubectl("apply", file)
    assert again.code == 1
    assert again.stderr.rstrip().endswith(DENIED)
    assert "pod updates may not change fields" not in again.stderr


def test_a_manifest_that_asks_for_nothing_else_can_be_applied_again(lock, kubectl):
    file = f"--filename={MANIFESTS / 'clearml-label-only.yaml'}"
    for _ in range(2):
        applied = kubectl("apply", file)
        assert (applied.code, applied.stderr) == (0, "")


@pytest.fixture
def kept(lock, product, control_plane, namespace):
    """Path of an injected pod whose webhook has gone."""
    pod = labelled_pod("kept", "0.500", schedulingGates=[{"name": "example.com/wait"}])
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    control_plane.api.create(pod, namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/kept"
    product.stop()
    yield path
    product.start_again()
    eventually(lambda: decides(probe(control_plane.api, namespace)), "the webhook answers again")
    control_plane.api.call("PATCH", path, {"metadata": {"finalizers": None}}, content=STRATEGIC)


CHANGES = [
    {"metadata": {"labels": {"team": "blue"}}},
    {"spec": {"tolerations": [{"key": "more", "operator": "Exists"}]}},
    {"spec": {"schedulingGates": [{"$patch": "replace"}]}},
    {"spec": {"containers": [{"name": "kept", "image": "example.com/other:1"}]}},
    {"spec": {"activeDeadlineSeconds": 60}},
    {"metadata": {"finalizers": None}},
]


def test_what_kubernetes_allows_does_not_need_the_webhook(kept, control_plane):
    for change in CHANGES:
        made = control_plane.api.call("PATCH", kept, change, content=STRATEGIC)
        assert made["metadata"]["labels"][LABEL] == "0.500"
    assert "schedulingGates" not in made["spec"]
    again = {"spec": {"containers": [{"name": "kept", "args": ["--other"]}]}}
    with pytest.raises(ApiError, match="failed calling webhook"):
        control_plane.api.call("PATCH", kept, again, content=STRATEGIC)
