"""Other mutating webhooks, before and after ours in the API server's order, which is by name."""

import copy
from contextlib import contextmanager

import pytest

from testbed.admission_server import AdmissionServer, patching
from testbed.api import ApiError
from testbed.gpu_nodes import GpuNode
from testbed.registration import LABEL, configuration, labelled_pod, registered
from tests.control_plane.admission_policies.support import unlabelled_pod
from tests.webhook.support.limiter_parts import check_limiter

SIDECAR = {"name": "mesh", "image": "example.com/mesh:1"}
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}


def add_sidecar(pod):
    """Put a container before all others, once."""
    if "mesh" in names(pod):
        return []
    return [{"op": "add", "path": "/spec/containers/0", "value": SIDECAR}]


def add_label(pod):
    if LABEL in pod["metadata"].get("labels", {}):
        return []
    return [{"op": "add", "path": "/metadata/labels", "value": {LABEL: "0.500"}}]


def names(pod):
    return [container["name"] for container in pod["spec"]["containers"]]


@contextmanager
def second(api, name, namespace, change, works):
    with AdmissionServer(patching(change)) as server:
        here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        everywhere = {"matchConditions": [], "namespaceSelector": here}
        config = configuration(name, server.url, server.ca_pem, **everywhere)
        with registered(api, config, namespace, works):
            yield


def has_sidecar(outcome):
    return not isinstance(outcome, ApiError) and "mesh" in names(outcome)


@pytest.mark.parametrize("name", ["a-mesh", "z-mesh"], ids=["before ours", "after ours"])
def test_a_container_added_by_another_webhook_gets_no_gpu(name, nodes, webhook, control_plane, namespace):
    nodes(GpuNode(gpus=2))
    ours = webhook(recorded=True)
    pod = labelled_pod("task", "0.500")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    with second(control_plane.api, name, namespace, add_sidecar, has_sidecar):
        control_plane.api.create(pod, namespace)
    stored = control_plane.api.get("Pod", "task", namespace)
    assert names(stored) == ["mesh", "task"]
    mesh, task = stored["spec"]["containers"]
    assert mesh["env"] == [VOID]
    assert "limits" not in mesh["resources"]
    assert task["resources"]["limits"] == {"nvidia.com/gpu-0": "4"}
    assert [entry["name"] for entry in task["env"]].count("LD_PRELOAD") == 1
    assert [container["name"] for container in stored["spec"]["initContainers"]] == ["gpu-limiter"]
    asked_again = copy.deepcopy(ours.real_reviews()[-1])
    asked_again["request"]["object"] = stored
    assert ours.explain(asked_again)["patch"] == []


def test_a_label_added_by_a_webhook_before_ours_is_honoured(nodes, webhook, control_plane, namespace):
    nodes(GpuNode(gpus=2))
    webhook()
    api = control_plane.api

    def works(_probed):
        made = api.create(unlabelled_pod("probe"), namespace, dry_run=True)
        return LABEL in made["metadata"].get("labels", {})

    with second(api, "a-labels", namespace, add_label, works):
        stored = api.create(unlabelled_pod("task"), namespace)
    assert stored["metadata"]["labels"] == {LABEL: "0.500"}
    assert stored["metadata"]["annotations"]["clearml-injector/slices"] == "4"


def test_the_copy_of_a_stored_pod_gets_no_second_limiter(nodes, webhook, control_plane, namespace):
    """What an API server fills in and mounts is not taken for somebody else's hand on our limiter."""
    nodes(GpuNode(gpus=1))
    webhook()
    control_plane.api.create(labelled_pod("task", "0.500"), namespace)
    stored = control_plane.api.get("Pod", "task", namespace)
    copied = {"name": "copy", **{field: stored["metadata"][field] for field in ("labels", "annotations")}}
    control_plane.api.create({**stored, "metadata": copied, "status": {}}, namespace)
    copy_of_it = control_plane.api.get("Pod", "copy", namespace)
    check_limiter(copy_of_it)
    assert copy_of_it["spec"]["initContainers"] == stored["spec"]["initContainers"]
    assert copy_of_it["spec"]["volumes"] == stored["spec"]["volumes"]
