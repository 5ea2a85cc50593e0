"""Ways around the webhook that change a pod after its creation, and changes that must pass."""

import pytest

from testbed.api import ApiError
from testbed.kubernetes_version import HAS_POD_RESIZE, UNDER_TEST
from testbed.process import eventually
from testbed.product import INJECTED
from testbed.registration import LABEL, labelled_pod
from tests.control_plane.admission_policies.support import (
    DEVICES,
    OLD,
    large_pod,
    refused,
    takes_devices,
    unlabelled_pod,
)

LABEL_KEPT = (
    "clearml-injector/fraction: cannot be added, changed or removed after creation: "
    "delete the pod and create it again with the label"
)
ANNOTATIONS_KEPT = (
    "clearml-injector/injected, slices, gpu-index, gpu-container, memory-mib and reservation say "
    "what was decided at creation: leave them as they are, or delete the pod and create it again"
)
PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


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


needs_resize = pytest.mark.skipif(
    not HAS_POD_RESIZE, reason=f"Kubernetes {UNDER_TEST.name} has no subresource pods/resize"
)


@pytest.mark.parametrize("subresource", [pytest.param("resize", marks=needs_resize), "ephemeralcontainers"])
def test_other_subresources_do_not_carry_labels(unlabelled, control_plane, namespace, subresource):
    change(control_plane.api, namespace, "unlabelled", {"labels": {LABEL: "0.500"}}, f"/{subresource}")
    assert "labels" not in control_plane.api.get("Pod", "unlabelled", namespace)["metadata"]


QUEUE_KEPT = (
    "clearml-agent-queue-name, clearml-agent-queue: the pod is counted in its queue and cannot change it: "
    "delete the pod and create it again"
)
DEVICES_KEPT = (
    "annotations that give devices, such as nvidia.cdi.k8s.io, and gpu-fraction, gpu-memory: cannot be"
    " added to a pod labelled clearml-injector/fraction: remove them"
)
IMAGES_KEPT = (
    "images of init containers: cannot change after the injection, as the GPU memory limiter comes with one: "
    "delete the pod and create it again"
)
GPU_IMAGES_KEPT = (
    "images of GPU containers: cannot change after the injection, as the image limits the memory: "
    "delete the pod and create it again"
)


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("label", ["clearml-agent-queue-name", "clearml-agent-queue"])
def test_an_injected_pod_stays_in_its_queue(lock, control_plane, namespace, subresource, label):
    pod = labelled_pod("queued", "0.500")
    pod["metadata"]["labels"] |= {"clearml-agent-queue-name": "mine", "clearml-agent-queue": "0123"}
    control_plane.api.create(pod, namespace)
    for value in ("other", None):
        with refused("unchanged", QUEUE_KEPT):
            change(control_plane.api, namespace, "queued", {"labels": {label: value}}, subresource)


def test_an_injected_pod_cannot_enter_a_queue_later(injected, control_plane, namespace):
    with refused("unchanged", QUEUE_KEPT):
        labels = {"clearml-agent-queue-name": "trusted"}
        change(control_plane.api, namespace, "injected", {"labels": labels})


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize(
    "name",
    [
        "cdi.k8s.io/all",
        "nvidia.cdi.k8s.io/container.injected",
        "nvidia.cdi.k8s.io",
        "devices.nri.io",
        "mounts.noderesource.dev/pod",
        "devices.gke.io/container.injected",
        "devices.crio.io",
        "io.kubernetes.cri-o.Devices",
        "nvidia.com/container.train.gpus.devices",
        "gpu-fractioning.nvidia.com/a",
        "gpu-fraction",
        "gpu-memory",
    ],
)
def test_devices_cannot_be_annotated_later(lock, control_plane, subresource, name):
    """Also where pods without the label may take them."""
    control_plane.api.create(labelled_pod("kept", schedulerName="nobody"), DEVICES)
    with refused("unchanged", DEVICES_KEPT):
        change(control_plane.api, DEVICES, "kept", {"annotations": {name: "nvidia.com/gpu=all"}}, subresource)
    control_plane.api.delete("Pod", "kept", DEVICES)


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_an_unlabelled_pod_cannot_be_given_devices_later(unlabelled, control_plane, namespace, subresource):
    annotations = {"nvidia.cdi.k8s.io": "nvidia.com/gpu=all"}
    with refused("device-annotations", takes_devices("nvidia.cdi.k8s.io")):
        change(control_plane.api, namespace, "unlabelled", {"annotations": annotations}, subresource)
    change(control_plane.api, namespace, "unlabelled", {"annotations": {"note": "mine"}}, subresource)


def with_image(pod, field, name):
    """A patch that gives another image to a container."""
    images = [{"name": found["name"]} for found in pod["spec"][field]]
    [changed] = [entry for entry in images if entry["name"] == name]
    changed["image"] = "example.com/other:1"
    return {"spec": {field: images}}


def change_image(api, pod, field, name):
    namespace = pod["metadata"]["namespace"]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
    return api.call("PATCH", path, with_image(pod, field, name), content=STRATEGIC)


@pytest.mark.parametrize("gates", [[], [{"name": "example.com/wait"}]], ids=["free", "gated"])
@pytest.mark.parametrize("name", ["gpu-limiter", "prepare"])
def test_the_limiters_init_container_keeps_its_image(lock, control_plane, namespace, gates, name):
    prepare = {"name": "prepare", "image": "example.com/prepare:1"}
    pod = labelled_pod("gated", "0.500", schedulingGates=gates, initContainers=[prepare])
    made = control_plane.api.create(pod, namespace)
    with refused("unchanged", IMAGES_KEPT):
        change_image(control_plane.api, made, "initContainers", name)


def test_images_of_regular_containers_and_sidecars_may_change(lock, control_plane, namespace):
    sidecar = {"name": "mesh", "image": "example.com/mesh:1", "restartPolicy": "Always"}
    made = control_plane.api.create(labelled_pod("pod", "0.500", initContainers=[sidecar]), namespace)
    changed = change_image(control_plane.api, made, "initContainers", "mesh")
    assert "example.com/other:1" in {found["image"] for found in changed["spec"]["initContainers"]}
    changed = change_image(control_plane.api, made, "containers", "pod")
    assert changed["spec"]["containers"][0]["image"] == "example.com/other:1"


def test_an_image_that_is_the_limit_cannot_change(lock, control_plane):
    pod = labelled_pod("image", "0.250", schedulingGates=[{"name": "example.com/wait"}])
    pod["spec"]["containers"][0]["image"] = "clearml/fractional-gpu:u22-cu12.3-8gb"
    pod["spec"]["containers"].append({"name": "other", "image": "example.com/task:1"})
    made = control_plane.api.create(pod, "lock-image")
    with refused("unchanged", GPU_IMAGES_KEPT):
        change_image(control_plane.api, made, "containers", "image")
    change_image(control_plane.api, made, "containers", "other")
    control_plane.api.delete("Pod", "image", "lock-image")


def binding(metadata):
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "unbound", **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-0"},
    }


NONE_OF_OURS = (
    "clearml-injector/*: a Binding may not put these labels and annotations on the pod: remove them"
)
NO_QUEUE = (
    "clearml-agent-queue*: a Binding may not put a pod into a queue: set the label when you create the pod"
)
NO_DEVICES = (
    "annotations that give devices, such as nvidia.cdi.k8s.io: a Binding may not put them on the pod:"
    " remove them"
)
BROUGHT = {
    "our label": (
        {"labels": {LABEL: "0.500"}},
        NONE_OF_OURS,
    ),
    "our annotation": (
        {"annotations": {INJECTED: "0.500"}},
        NONE_OF_OURS,
    ),
    "a queue": (
        {"labels": {"clearml-agent-queue-name": "large"}},
        NO_QUEUE,
    ),
    "a queue by its id": (
        {"labels": {"clearml-agent-queue": "0123"}},
        NO_QUEUE,
    ),
    "devices": (
        {"annotations": {"cdi.k8s.io/all": "nvidia.com/gpu=all"}},
        NO_DEVICES,
    ),
    "NVIDIA's devices": (
        {"annotations": {"nvidia.cdi.k8s.io/container.task": "nvidia.com/gpu=all"}},
        NO_DEVICES,
    ),
    "devices by the bare name": (
        {"annotations": {"nvidia.cdi.k8s.io": "nvidia.com/gpu=all"}},
        NO_DEVICES,
    ),
    "devices by KAI's node agent": (
        {"annotations": {"nvidia.com/container.task.gpus.devices": "all"}},
        NO_DEVICES,
    ),
    "an NRI plugin's devices": (
        {"annotations": {"devices.nri.io/pod": "x"}},
        NO_DEVICES,
    ),
}


@pytest.mark.parametrize("brought", BROUGHT.values(), ids=BROUGHT)
@pytest.mark.parametrize("by", ["pods/unbound/binding", "bindings"])
def test_a_binding_cannot_bring_what_is_decided_at_creation(lock, control_plane, namespace, brought, by):
    control_plane.api.create(unlabelled_pod("unbound", schedulerName="nobody"), namespace)
    metadata, message = brought
    path = f"/api/v1/namespaces/{namespace}/{by}"
    with refused("bindings", message):
        control_plane.api.call("POST", path, binding(metadata))
    control_plane.api.call("POST", path, binding({"annotations": {"note": "mine"}}))
    pod = control_plane.api.get("Pod", "unbound", namespace)
    assert (pod["spec"]["nodeName"], pod["metadata"]["annotations"]) == ("gpu-0", {"note": "mine"})


def test_nor_can_it_bring_devices_where_the_webhook_does_not_serve(lock, control_plane):
    namespace = "lock-excluded"
    control_plane.api.create(unlabelled_pod("unbound", schedulerName="nobody"), namespace)
    for by in ("pods/unbound/binding", "bindings"):
        path = f"/api/v1/namespaces/{namespace}/{by}"
        with refused("bindings", NO_DEVICES):
            control_plane.api.call("POST", path, binding({"annotations": {"cdi.k8s.io/all": "x"}}))
    control_plane.api.call("POST", path, binding({"annotations": {"note": "mine"}}))
    control_plane.api.delete("Pod", "unbound", namespace)


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
    assert "old" not in [pod["metadata"]["name"] for pod in api.list("Pod", OLD)]


def test_a_pod_that_had_devices_before_the_install_changes_as_ever(lock, old_device_pod, control_plane):
    path = f"/api/v1/namespaces/{OLD}/pods/devices"
    made = control_plane.api.call("PATCH", f"{path}/status", {"status": {"message": "here"}}, content=PATCH)
    assert made["status"]["message"] == "here"
    change(control_plane.api, OLD, "devices", {"labels": {"team": "blue"}})
    with refused("device-annotations", takes_devices("nvidia.cdi.k8s.io")):
        change(control_plane.api, OLD, "devices", {"annotations": {"nvidia.cdi.k8s.io": "nvidia.com/gpu=0"}})
    change(control_plane.api, OLD, "devices", {"annotations": {"nvidia.cdi.k8s.io": None}})


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


def create_large(api, namespace):
    """Create a large pod, as often as the webhook of a busy machine says to try again."""

    def created():
        try:
            return api.create(large_pod("large"), namespace)
        except ApiError as error:
            if "is busy with other large" not in str(error):
                raise
            return None

    eventually(created, "the large pod is decided")


def test_changes_of_a_large_pod_are_within_what_the_api_server_computes(lock, control_plane, namespace):
    create_large(control_plane.api, namespace)
    changed = change(control_plane.api, namespace, "large", {"labels": {"team": "blue"}})
    assert changed["metadata"]["labels"]["team"] == "blue"
    create_large(control_plane.api, DEVICES)
    with refused("unchanged", DEVICES_KEPT):
        change(control_plane.api, DEVICES, "large", {"annotations": {"cdi.k8s.io/all": "all"}})
    control_plane.api.delete("Pod", "large", DEVICES)
