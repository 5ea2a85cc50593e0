"""The tests' own webhooks, against the real API server."""

from testbed.admission_server import AdmissionServer, patching
from testbed.registration import LABEL, configuration, labelled_pod, registered

SIDECAR = {"name": "sidecar", "image": "example.com/sidecar:1"}


def add_sidecar(pod):
    if any(container["name"] == SIDECAR["name"] for container in pod["spec"]["containers"]):
        return []
    return [{"op": "add", "path": "/spec/containers/0", "value": SIDECAR}]


def names(pod):
    return [container["name"] for container in pod["spec"]["containers"]]


def test_a_patch_is_in_the_stored_pod_and_the_review_is_remembered(control_plane, namespace):
    with AdmissionServer(patching(add_sidecar)) as server:
        config = configuration("sidecar", server.url, server.ca_pem)
        patched = registered(control_plane.api, config, namespace, lambda pod: "sidecar" in names(pod))
        with patched:
            control_plane.api.create(labelled_pod("task"), namespace)
        stored = control_plane.api.get("Pod", "task", namespace)
        assert names(stored) == ["sidecar", "task"]
        request = next(review["request"] for review in server.reviews if not review["request"]["dryRun"])
        assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "task", namespace)
        assert request["object"]["metadata"]["labels"] == {LABEL: "0.125"}
