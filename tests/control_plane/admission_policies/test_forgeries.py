"""With the webhook's configuration deleted: labelled pods, and pods that claim to be injected."""

import copy

import pytest

from testbed.api import ApiError
from testbed.registration import labelled_pod
from tests.control_plane.admission_policies.forged import (
    ADVICE,
    CONTAINER,
    ENV,
    PARTS,
    index_of,
    limits,
    said,
    task,
    variable,
)
from tests.control_plane.admission_policies.support import asking, refused, unlabelled_pod
from tests.control_plane.admission_policies.test_creations import NEEDS_LABEL, NOT_INJECTED


def test_a_labelled_pod_is_refused(no_webhook, control_plane, namespace):
    with refused("injected", NOT_INJECTED):
        control_plane.api.create(labelled_pod("plain"), namespace)


def test_the_marker_alone_is_refused(no_webhook, control_plane, namespace):
    pod = labelled_pod("marked")
    pod["metadata"]["annotations"] = {"clearml-injector/injected": "default@0"}
    with refused("injected", NOT_INJECTED):
        control_plane.api.create(pod, namespace)


def test_annotations_without_slices_are_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    del task(pod)["resources"]
    pod["spec"].pop("initContainers")
    with refused("injected", CONTAINER):
        control_plane.api.create(pod, "lock-default")


def test_another_container_than_the_one_that_holds_slices_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    said(pod)["clearml-injector/gpu-container"] = "other"
    with refused("injected", CONTAINER):
        control_plane.api.create(pod, "lock-default")


@pytest.mark.parametrize("amount", ["1", "5"])
def test_slices_that_are_not_the_annotations_are_refused(no_webhook, control_plane, amount):
    pod = copy.deepcopy(no_webhook["half"])
    name = f"nvidia.com/gpu-{index_of(pod)}"
    task(pod)["resources"] = {"limits": {name: amount}}
    with refused("injected", limits(4, name)):
        control_plane.api.create(pod, "lock-default")


def test_another_gpu_than_the_annotations_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    task(pod)["resources"] = {"limits": {"nvidia.com/gpu-99": "4"}}
    with refused("injected", limits(4, f"nvidia.com/gpu-{index_of(pod)}")):
        control_plane.api.create(pod, "lock-default")


def test_one_gpu_in_the_name_of_two_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["two"])
    first = index_of(pod).split(",")[0]
    said(pod)["clearml-injector/gpu-index"] = f"{first},{first}"
    task(pod)["resources"] = {"limits": {f"nvidia.com/gpu-{first}": "8"}}
    with refused("injected", limits(16, f"nvidia.com/gpu-{first}, nvidia.com/gpu-{first}")):
        control_plane.api.create(pod, "lock-whole")


def test_more_of_the_pool_than_the_label_says_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["pooled"])
    task(pod)["resources"] = {"limits": {"nvidia.com/gpu": "7"}}
    with refused("injected", limits(2, "nvidia.com/gpu")):
        control_plane.api.create(pod, "lock-pooled")


@pytest.mark.parametrize(
    ("amounts", "named"),
    [
        ({"nvidia.com/mig-3g.40gb": "2"}, "nvidia.com/mig-3g.40gb"),
        ({"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "1"}, "nvidia.com/mig-<profile>"),
    ],
)
def test_more_than_one_instance_is_refused(no_webhook, control_plane, amounts, named):
    pod = copy.deepcopy(no_webhook["mig"])
    task(pod)["resources"] = {"limits": amounts}
    message = f"limits of GPU containers: must be one of {named}, as the annotations say: {ADVICE}"
    with refused("injected", message):
        control_plane.api.create(pod, "lock-mig")


@pytest.mark.parametrize(
    ("policy", "resource", "message"),
    [
        ("mig", "nvidia.com/gpu", "one of nvidia.com/mig-<profile>"),
        ("both", "nvidia.com/gpu", "1 slices of nvidia.com/gpu-{index}"),
        ("both", "nvidia.com/gpu-0", "1 slices of nvidia.com/gpu-{index}"),
    ],
)
def test_a_gpu_or_a_slice_without_a_limit_is_no_instance(
    no_webhook, control_plane, policy, resource, message
):
    pod = copy.deepcopy(no_webhook[policy])
    task(pod)["resources"] = {"limits": {resource: "1"}}
    with refused(
        "injected", f"limits of GPU containers: must be {message}, as the annotations say: {ADVICE}"
    ):
        control_plane.api.create(pod, f"lock-{policy}")


def test_a_slice_of_the_pool_without_a_limit_is_no_instance(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["either"])
    task(pod)["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    with refused("injected", ENV):
        control_plane.api.create(pod, "lock-either")


@pytest.mark.parametrize("label", ["0.625", "1.000", "NaN"])
def test_an_instance_that_does_not_hold_what_the_label_says_is_refused(no_webhook, control_plane, label):
    pod = copy.deepcopy(no_webhook["mig"])
    pod["metadata"]["labels"]["clearml-injector/fraction"] = label
    message = f"clearml-injector/slices: not what the label says of a MIG instance: {ADVICE}"
    with refused("injected", message):
        control_plane.api.create(pod, "lock-mig")


@pytest.mark.parametrize("label", ["0.125", "0.875", "1.000", "NaN", "0.5", "abc"])
def test_a_label_that_the_slices_do_not_fit_is_refused(no_webhook, control_plane, label):
    pod = copy.deepcopy(no_webhook["half"])
    pod["metadata"]["labels"]["clearml-injector/fraction"] = label
    with refused("injected", f"clearml-injector/slices: 4 is not what the label says: {label}: {ADVICE}"):
        control_plane.api.create(pod, "lock-default")


def test_all_slices_of_a_gpu_for_a_share_that_is_limited_need_the_limit(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["most"])
    del task(pod)["env"]
    with refused("injected", ENV):
        control_plane.api.create(pod, "lock-whole")


@pytest.mark.parametrize("memory", ["5Gi", "4G", ""])
def test_memory_that_is_not_the_limit_is_refused(no_webhook, control_plane, memory):
    pod = copy.deepcopy(no_webhook["memory"])
    pod["metadata"]["labels"]["clearml-injector/gpu-memory"] = memory
    with pytest.raises(ApiError, match=f"is not what the label says: {memory}: {ADVICE}"):
        control_plane.api.create(pod, "lock-default")


def test_memory_is_limited_as_fractions_are(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["memory"])
    del task(pod)["env"]
    with pytest.raises(ApiError, match=ENV.split(":", maxsplit=1)[0]):
        control_plane.api.create(pod, "lock-default")


def test_a_second_container_with_slices_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    pod["spec"]["containers"].append({**task(pod), "name": "second"})
    with refused("injected", PARTS):
        control_plane.api.create(pod, "lock-default")


def test_a_native_sidecar_with_slices_in_addition_to_the_container_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    pod["spec"]["initContainers"].append({**task(pod), "name": "second", "restartPolicy": "Always"})
    with refused("injected", PARTS):
        control_plane.api.create(pod, "lock-default")


def test_an_init_container_that_ends_is_not_the_one_with_the_share(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    pod["spec"]["initContainers"].append({**task(pod), "name": "second"})
    control_plane.api.create(pod, "lock-default", dry_run=True)
    said(pod)["clearml-injector/gpu-container"] = "second"
    with refused("injected", PARTS):
        control_plane.api.create(pod, "lock-default")


def test_a_policy_of_another_namespace_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    said(pod)["clearml-injector/injected"] = "open@0"
    message = f"clearml-injector/injected: policy open is not for namespace lock-default: {ADVICE}"
    with refused("injected", message):
        control_plane.api.create(pod, "lock-default")


def test_a_limiter_that_a_queue_has_elsewhere_is_refused(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    pod["metadata"]["labels"]["clearml-agent-queue-name"] = "trusted"
    del task(pod)["env"]
    with refused("injected", ENV):
        control_plane.api.create(pod, "lock-default")


@pytest.mark.parametrize("policy", ["half", "pooled", "driver", "custom"])
def test_a_pod_without_its_limit_is_refused(no_webhook, control_plane, policy):
    pod = copy.deepcopy(no_webhook[policy])
    del task(pod)["env"]
    with refused("injected", ENV):
        control_plane.api.create(pod, pod["metadata"]["namespace"])


def raised(pod):
    variable(pod, "CUDA_DEVICE_MEMORY_LIMIT_0")["value"] = "81920m"


def unlimited(pod):
    variable(pod, "CUDA_DEVICE_MEMORY_LIMIT_0")["value"] = "0.5g"


def twice(pod):
    task(pod)["env"].append({"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": "81920m"})


def from_elsewhere(pod):
    limit = variable(pod, "CUDA_DEVICE_MEMORY_LIMIT_0")
    del limit["value"]
    limit["valueFrom"] = {"fieldRef": {"fieldPath": "metadata.annotations['mine']"}}


def not_preloaded(pod):
    variable(pod, "LD_PRELOAD")["value"] = "/tmp/mine.so"  # noqa: S108 - a path in a container


def preloaded_last(pod):
    preload = variable(pod, "LD_PRELOAD")
    preload["value"] = f"/mine.so:{preload['value']}"


def without_memory(pod):
    del said(pod)["clearml-injector/memory-mib"]


@pytest.mark.parametrize(
    "forge", [raised, unlimited, twice, from_elsewhere, not_preloaded, preloaded_last, without_memory]
)
def test_a_limit_that_is_not_ours_is_refused(no_webhook, control_plane, forge):
    pod = copy.deepcopy(no_webhook["half"])
    forge(pod)
    with refused("injected", ENV):
        control_plane.api.create(pod, "lock-default")


def test_an_unlabelled_pod_may_not_ask_for_one_gpus_slices_either(no_webhook, control_plane, namespace):
    with refused("unlabelled", NEEDS_LABEL):
        control_plane.api.create(asking("nvidia.com/gpu-0"), namespace)


def test_unlabelled_pods_pass(no_webhook, control_plane, namespace):
    made = control_plane.api.create(unlabelled_pod(), namespace)
    assert made["metadata"]["name"] == "unlabelled"


@pytest.mark.parametrize("policy", ["half", "two", "pooled", "mig", "both", "either", "driver", "custom"])
def test_a_complete_forgery_passes_as_the_threat_model_says(no_webhook, control_plane, policy):
    pod = copy.deepcopy(no_webhook[policy])
    made = control_plane.api.create(pod, pod["metadata"]["namespace"], dry_run=True)
    assert said(made) == said(pod)


def test_kubernetes_itself_keeps_the_environment_of_a_gated_pod(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    pod["metadata"]["name"] = "gated"
    pod["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    made = control_plane.api.create(pod, "lock-default")
    [limiter] = made["spec"]["initContainers"]
    other = {
        "spec": {"initContainers": [{"name": limiter["name"], "env": [{"name": "PATH", "value": "/mine"}]}]}
    }
    path = "/api/v1/namespaces/lock-default/pods/gated"
    with pytest.raises(ApiError, match="pod updates may not change fields other than"):
        control_plane.api.call("PATCH", path, other, content="application/strategic-merge-patch+json")
    control_plane.api.delete("Pod", "gated", "lock-default")


TAKES_DEVICES = (
    "annotations that give devices, such as nvidia.cdi.k8s.io: a pod with the label may not have them:"
    " remove them"
)
SELECTS = "volumeMounts: a path that begins with /run/nvidia-container-devices selects GPUs: remove the mount"
BYPASSES = (
    "env: NVIDIA_VISIBLE_DEVICES of GPU containers, and in others variables such as"
    f" CUDA_MPS_PIPE_DIRECTORY, bypass the share: {ADVICE}"
)


@pytest.mark.parametrize(
    "name",
    ["mounts.nri.io", "devices.crio.io/a", "nvidia.com/container.a.gpus.devices", "gpu-fractioning.a/b"],
)
def test_a_forged_pod_may_not_have_annotations_that_give_devices(no_webhook, control_plane, name):
    pod = copy.deepcopy(no_webhook["half"])
    said(pod)[name] = "all"
    with refused("injected", TAKES_DEVICES):
        control_plane.api.create(pod, "lock-default", dry_run=True)


def test_one_of_two_policies_refuses_what_no_pod_may_have(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    said(pod)["nvidia.cdi.k8s.io"] = "nvidia.com/gpu=all"
    with pytest.raises(ApiError, match="devices"):
        control_plane.api.create(pod, "lock-default", dry_run=True)


def test_a_forged_pod_may_not_select_devices_by_a_mount(no_webhook, control_plane):
    pod = copy.deepcopy(no_webhook["half"])
    task(pod)["volumeMounts"].append(
        {"name": task(pod)["volumeMounts"][0]["name"], "mountPath": "/var/run/nvidia-container-devicesall"}
    )
    with refused("injected", SELECTS):
        control_plane.api.create(pod, "lock-default", dry_run=True)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("containers", "NVIDIA_VISIBLE_DEVICES"),
        ("initContainers", "CUDA_MPS_PIPE_DIRECTORY"),
        ("initContainers", "NVIDIA_GDS"),
    ],
)
def test_a_forged_pod_may_not_have_variables_that_bypass_the_share(no_webhook, control_plane, place, name):
    pod = copy.deepcopy(no_webhook["half"])
    pod["spec"][place][0]["env"].append({"name": name, "value": "all"})
    with refused("injected", BYPASSES):
        control_plane.api.create(pod, "lock-default", dry_run=True)
