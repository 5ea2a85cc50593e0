"""Ways around the webhook that change a pod after its creation, and changes that must pass."""

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


WAYS = ("", "/status")
"""To change metadata."""
DECIDED = ("injected", "slices", "gpu-index", "gpu-container", "memory-mib", "reservation")


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


QUEUED = {"clearml-agent-queue-name": "mine", "clearml-agent-queue": "01"}
KEPT = {
    "unlabelled": [({"labels": {LABEL: "0.500"}}, LABEL_KEPT)],
    "injected": [
        *(({"labels": {LABEL: label}}, LABEL_KEPT) for label in ("0.125", "0.875", None)),
        *(({"annotations": {f"clearml-injector/{name}": "7"}}, ANNOTATIONS_KEPT) for name in DECIDED),
        *(({"labels": {name: "trusted"}}, QUEUE_KEPT) for name in QUEUED),
    ],
    "queued": [({"labels": {name: value}}, QUEUE_KEPT) for name in QUEUED for value in ("other", None)],
}
"""Changes of the metadata of pods, and how they are refused."""


def test_what_was_decided_at_creation_cannot_change(unlabelled, injected, control_plane, namespace):
    pod = labelled_pod("queued", "0.500")
    pod["metadata"]["labels"] |= QUEUED
    control_plane.api.create(pod, namespace)
    for way in WAYS:
        for name, changes in KEPT.items():
            for metadata, message in changes:
                with refused("unchanged", message):
                    change(control_plane.api, namespace, name, metadata, way)


GIVE_DEVICES = (
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
)


def test_devices_cannot_be_annotated_later(lock, control_plane):
    """Also where pods without the label may take them."""
    control_plane.api.create(labelled_pod("kept", schedulerName="nobody"), DEVICES)
    for way in WAYS:
        for name in GIVE_DEVICES:
            with refused("unchanged", DEVICES_KEPT):
                change(control_plane.api, DEVICES, "kept", {"annotations": {name: "nvidia.com/gpu=all"}}, way)
    control_plane.api.delete("Pod", "kept", DEVICES)


def test_an_unlabelled_pod_cannot_be_given_devices_later(unlabelled, control_plane, namespace):
    annotations = {"nvidia.cdi.k8s.io": "nvidia.com/gpu=all"}
    for way in WAYS:
        with refused("device-annotations", takes_devices("nvidia.cdi.k8s.io")):
            change(control_plane.api, namespace, "unlabelled", {"annotations": annotations}, way)
        change(control_plane.api, namespace, "unlabelled", {"annotations": {"note": "mine"}}, way)


def change_image(api, pod, field, name):
    images = [{"name": found["name"]} for found in pod["spec"][field]]
    [changed] = [entry for entry in images if entry["name"] == name]
    changed["image"] = "example.com/other:1"
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    made = api.call("PATCH", path, {"spec": {field: images}}, content=STRATEGIC)
    assert "example.com/other:1" in {found["image"] for found in made["spec"][field]}


def test_init_containers_keep_their_images_and_other_containers_need_not(lock, control_plane, namespace):
    prepare = {"name": "prepare", "image": "example.com/prepare:1"}
    sidecar = {"name": "mesh", "image": "example.com/mesh:1", "restartPolicy": "Always"}
    pod = labelled_pod("kept", "0.500", initContainers=[prepare, sidecar])
    made = control_plane.api.create(pod, namespace)
    for name in ("gpu-limiter", "prepare"):
        with refused("unchanged", IMAGES_KEPT):
            change_image(control_plane.api, made, "initContainers", name)
    change_image(control_plane.api, made, "initContainers", "mesh")
    change_image(control_plane.api, made, "containers", "kept")


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
BROUGHT = [
    ({"labels": {LABEL: "0.500"}}, NONE_OF_OURS),
    ({"annotations": {INJECTED: "0.500"}}, NONE_OF_OURS),
    ({"labels": {"clearml-agent-queue-name": "large"}}, NO_QUEUE),
    ({"labels": {"clearml-agent-queue": "0123"}}, NO_QUEUE),
    ({"annotations": {"cdi.k8s.io/all": "nvidia.com/gpu=all"}}, NO_DEVICES),
    ({"annotations": {"nvidia.cdi.k8s.io": "nvidia.com/gpu=all"}}, NO_DEVICES),
    ({"annotations": {"nvidia.com/container.task.gpus.devices": "all"}}, NO_DEVICES),
    ({"annotations": {"devices.nri.io/pod": "x"}}, NO_DEVICES),
]


def test_a_binding_cannot_bring_what_is_decided_at_creation(lock, control_plane):
    """Nor devices where the webhook does not serve."""
    for namespace, brought in (("lock-default", BROUGHT), ("lock-excluded", BROUGHT[4:])):
        control_plane.api.create(unlabelled_pod("unbound", schedulerName="nobody"), namespace)
        for path in (f"/api/v1/namespaces/{namespace}/{by}" for by in ("pods/unbound/binding", "bindings")):
            for metadata, message in brought:
                with refused("bindings", message):
                    control_plane.api.call("POST", path, binding(metadata))
        control_plane.api.call("POST", path, binding({"annotations": {"note": "mine"}}))
        pod = control_plane.api.get("Pod", "unbound", namespace)
        assert (pod["spec"]["nodeName"], pod["metadata"]["annotations"]) == ("gpu-0", {"note": "mine"})
        control_plane.api.delete("Pod", "unbound", namespace)


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


def test_changes_of_a_large_pod_are_within_what_the_api_server_computes(lock, control_plane, namespace):
    control_plane.api.create(large_pod("large"), namespace)
    changed = change(control_plane.api, namespace, "large", {"labels": {"team": "blue"}})
    assert changed["metadata"]["labels"]["team"] == "blue"
    control_plane.api.create(large_pod("large"), DEVICES)
    with refused("unchanged", DEVICES_KEPT):
        change(control_plane.api, DEVICES, "large", {"annotations": {"cdi.k8s.io/all": "all"}})
    control_plane.api.delete("Pod", "large", DEVICES)
