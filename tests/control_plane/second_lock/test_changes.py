"""Ways around the webhook that change a pod after its creation, and changes that must pass."""

import pytest

from tests.control_plane.process import eventually
from tests.control_plane.product import INJECTED
from tests.control_plane.registration import LABEL
from tests.control_plane.second_lock.lock import OLD, refused, unlabelled_pod

LABEL_KEPT = (
    "clearml-injector/fraction: cannot be added, changed or removed after creation: "
    "delete the pod and create it again with the label"
)
ANNOTATIONS_KEPT = (
    "clearml-injector/injected, slices, gpu-index, gpu-container, memory-mib and reservation say "
    "what was decided at creation and cannot change"
)
PATCH = "application/merge-patch+json"


def change(api, namespace, pod, metadata, subresource=""):
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}{subresource}"
    return api.call("PATCH", path, {"metadata": metadata}, content=PATCH)


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_a_label_added_to_an_existing_pod_is_refused(unlabelled, control_plane, namespace, subresource):
    with refused("unchanged", LABEL_KEPT):
        change(control_plane.api, namespace, "unlabelled", {"labels": {LABEL: "0.500"}}, subresource)


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("label", ["0.125", "0.875", None], ids=["smaller", "larger", "none"])
def test_the_label_of_an_injected_pod_cannot_change(injected, control_plane, namespace, subresource, label):
    with refused("unchanged", LABEL_KEPT):
        change(control_plane.api, namespace, "injected", {"labels": {LABEL: label}}, subresource)


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize(
    "name", ["injected", "slices", "gpu-index", "gpu-container", "memory-mib", "reservation"]
)
def test_what_was_decided_cannot_be_rewritten(injected, control_plane, namespace, subresource, name):
    with refused("unchanged", ANNOTATIONS_KEPT):
        annotations = {f"clearml-injector/{name}": "7"}
        change(control_plane.api, namespace, "injected", {"annotations": annotations}, subresource)


@pytest.mark.parametrize("subresource", ["resize", "ephemeralcontainers"])
def test_other_subresources_do_not_carry_labels(unlabelled, control_plane, namespace, subresource):
    change(control_plane.api, namespace, "unlabelled", {"labels": {LABEL: "0.500"}}, f"/{subresource}")
    assert "labels" not in control_plane.api.get("Pod", "unlabelled", namespace)["metadata"]


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("by", ["pods/binding", "bindings"])
def test_a_binding_cannot_bring_our_labels_or_annotations(lock, control_plane, namespace, field, by):
    control_plane.api.create(unlabelled_pod("unbound", schedulerName="nobody"), namespace)
    path = "pods/unbound/binding" if by == "pods/binding" else "bindings"
    key = LABEL if field == "labels" else INJECTED
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "unbound", field: {key: "0.500"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-0"},
    }
    with refused(
        "bindings", "clearml-injector/*: a Binding may not put these labels and annotations onto the pod"
    ):
        control_plane.api.call("POST", f"/api/v1/namespaces/{namespace}/{path}", binding)
    del binding["metadata"][field]
    control_plane.api.call("POST", f"/api/v1/namespaces/{namespace}/{path}", binding)
    assert control_plane.api.get("Pod", "unbound", namespace)["spec"]["nodeName"] == "gpu-0"


VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}


def debug(api, namespace, pod, env, name="debug"):
    container = {"name": name, "image": "example.com/debug:1", "env": env}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/ephemeralcontainers"
    patch = {"spec": {"ephemeralContainers": [container]}}
    strategic = "application/strategic-merge-patch+json"
    return api.call("PATCH", path, patch, content=strategic)


@pytest.mark.parametrize("env", [[], [ALL], [VOID, ALL], [ALL, VOID]], ids=["none", "all", "last", "first"])
def test_an_ephemeral_container_that_could_see_gpus_is_refused(injected, control_plane, namespace, env):
    message = (
        "ephemeral containers of a pod labelled clearml-injector/fraction must set env "
        "NVIDIA_VISIBLE_DEVICES=void, such as by kubectl debug --env"
    )
    with refused("ephemeral-containers", message):
        debug(control_plane.api, namespace, "injected", env)


def test_an_ephemeral_container_without_gpus_joins_and_more_may_follow(injected, control_plane, namespace):
    debug(control_plane.api, namespace, "injected", [VOID])
    made = debug(control_plane.api, namespace, "injected", [VOID], "second")
    assert sorted(c["name"] for c in made["spec"]["ephemeralContainers"]) == ["debug", "second"]


def test_pods_without_the_label_take_any_ephemeral_container(unlabelled, control_plane, namespace):
    made = debug(control_plane.api, namespace, "unlabelled", [ALL])
    assert made["spec"]["ephemeralContainers"][0]["env"] == [ALL]


# --- what must pass


def test_a_pod_older_than_the_install_gets_its_status_and_loses_its_finalizer(lock, old_pod, control_plane):
    api = control_plane.api
    assert INJECTED not in old_pod["metadata"].get("annotations", {})
    path = f"/api/v1/namespaces/{OLD}/pods/old"
    made = api.call("PATCH", f"{path}/status", {"status": {"message": "still here"}}, content=PATCH)
    assert made["status"]["message"] == "still here"
    api.delete("Pod", "old", OLD)
    assert api.get("Pod", "old", OLD)["metadata"]["deletionTimestamp"]
    change(api, OLD, "old", {"finalizers": None})
    assert api.list("Pod", OLD) == []


def test_an_injected_pod_is_scheduled_runs_and_takes_other_labels(injected, control_plane, namespace):
    def running():
        return control_plane.api.get("Pod", "injected", namespace)["status"]["phase"] == "Running"

    eventually(running, "scheduler and kubelet bring the pod to run")
    changed = change(control_plane.api, namespace, "injected", {"labels": {"team": "blue"}})
    assert changed["metadata"]["labels"] == {LABEL: "0.500", "team": "blue"}
    changed = change(control_plane.api, namespace, "injected", {"annotations": {"note": "mine"}})
    assert changed["metadata"]["annotations"]["note"] == "mine"


def test_unlabelled_pods_take_any_other_label(unlabelled, control_plane, namespace):
    changed = change(control_plane.api, namespace, "unlabelled", {"labels": {"team": "blue"}})
    assert changed["metadata"]["labels"] == {"team": "blue"}
