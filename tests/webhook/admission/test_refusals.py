"""What would break the share or ask for a GPU another way is denied wherever it stands."""

import pytest

from kube.device_keys import ANNOTATIONS
from tests.webhook.support import LABEL, container, decide, pod, policies
from webhook.admission.refusals import OURS_INSTEAD

PRIVILEGED = {"privileged": True}
DEVICE_ANNOTATIONS = [
    key.name.replace("*", "main.gpus.devices")
    for key in ANNOTATIONS
    if key.decision in ("denied", "denied-to-every-pod")
]


def adding(*names):
    return {"capabilities": {"drop": ["ALL"], "add": list(names)}}


ANY = "privileged: any-container"
GPU = {"nvidia.com/gpu": "1"}
CLEARML = [container(image="clearml/fractional-gpu:u22-cu12.3-2gb")]


@pytest.mark.parametrize(
    ("found", "text", "code"),
    [
        (pod(containers=[container(securityContext=PRIVILEGED)]), "", "privileged"),
        (pod(initContainers=[container("i", limits=GPU, securityContext=PRIVILEGED)]), "", "privileged"),
        (pod(initContainers=[container("i", securityContext=PRIVILEGED)]), "", "injected"),
        (pod(initContainers=[container("i", securityContext=PRIVILEGED)]), ANY, "privileged"),
        (pod(initContainers=[container("i", limits=GPU, securityContext=adding("ALL"))]), "", "capability"),
        (pod(initContainers=[container("i", securityContext=adding("SYS_ADMIN"))]), "", "injected"),
        (pod(initContainers=[container("i", securityContext=adding("SYS_ADMIN"))]), ANY, "capability"),
        (pod(containers=[container(securityContext=adding("SYS_PTRACE", "NET_ADMIN"))]), ANY, "injected"),
        (pod(hostPID=True), "", "host-pid"),
        (pod(hostPID=True, containers=CLEARML), "limiter: clearml-image", "injected"),
        (pod(hostIPC=True), "", "host-ipc"),
        (pod(hostIPC=False), "", "injected"),
        (pod(hostIPC=True), "allow: {hostIPC: true}", "injected"),
    ],
)
def test_what_reaches_other_gpus_or_pods_is_denied_unless_the_policy_says_otherwise(found, text, code):
    assert decide(found, policies(text)).code == code


@pytest.mark.parametrize(
    "name", ["SYS_ADMIN", "CAP_SYS_ADMIN", "sys_admin", "Cap_Sys_Admin", "ALL", "all", "CAP_ALL"]
)
def test_a_capability_that_leads_to_every_gpu_is_denied_on_gpu_containers(name):
    decided = decide(pod(containers=[container(securityContext=adding("NET_ADMIN", name))]))
    assert decided.code == "capability"
    assert decided.message == (
        f'container "train" adds {name}, which gives access to every GPU of the node:'
        f" remove it or the label {LABEL}"
    )


@pytest.mark.parametrize(("name", "other"), [("SYS_ADMIN", "ALL"), ("ALL", "SYS_ADMIN")])
def test_a_policy_allows_one_capability_at_a_time(name, other):
    allowing = policies(f"allow: {{capabilities: [{name}]}}")
    assert decide(pod(containers=[container(securityContext=adding(f"cap_{name}"))]), allowing).allowed
    found = pod(containers=[container(securityContext=adding(other, name))])
    assert decide(found, allowing).code == "capability"


SEEN = [
    lambda path: {"volumeMounts": [{"name": "x", "mountPath": path}]},
    lambda path: {"volumeDevices": [{"name": "x", "devicePath": path}]},
    lambda path: {"terminationMessagePath": path},
]


@pytest.mark.parametrize("fields", SEEN)
@pytest.mark.parametrize("path", ["/overrideEnv", "//overrideEnv/", "/./overrideEnv/x", "/"])
def test_what_overrides_the_limiters_settings_is_denied(path, fields):
    decided = decide(pod(containers=[container(**fields(path))]))
    assert decided.code == "mount-path"
    assert decided.message == (
        f'container "train" mounts {path}; /overrideEnv is reserved for settings of the GPU memory limiter:'
        " use another path"
    )


def test_what_overrides_settings_is_left_alone_where_nobody_reads_it_or_the_policy_allows_it():
    fields = SEEN[0]("/overrideEnv")
    assert decide(pod(containers=[container(**fields)]), policies("limiter: none")).allowed
    assert decide(pod(containers=[container(**fields)]), policies("allow: {overrideEnv: true}")).allowed
    both = [container("task"), container("side", **fields)]
    assert decide(pod(containers=both)).allowed


@pytest.mark.parametrize("fields", SEEN)
@pytest.mark.parametrize(
    "path",
    ["/usr/local/vgpu/libvgpu.so", "/usr/local/vgpu", "/usr/share/../local//vgpu-cache/x", "usr/local/vgpu/"],
)
def test_whatever_covers_the_limiter_in_a_gpu_container_is_denied(path, fields):
    """The log of a container's last words too: over the library, it is an empty file."""
    decided = decide(pod(containers=[container(**fields(path))]))
    assert decided.code == "mount-path"
    assert decided.message == (
        f'container "train" mounts {path}, a path of the GPU memory limiter: use another path'
    )


@pytest.mark.parametrize(
    "resource",
    [
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        "nvidia.com/hostdev",
        "nvidia.com/gpu-x",
        "nvidia.com/GA102GL_A10",
    ],
)
@pytest.mark.parametrize("mode", ["", "resources: {mode: pooled}"])
@pytest.mark.parametrize("in_a_sidecar", [False, True])
def test_another_way_to_a_gpu_is_denied_with_the_label(resource, mode, in_a_sidecar):
    side = container("side", limits={resource: "1"} if in_a_sidecar else None)
    task = container("task", limits={"nvidia.com/gpu": "1"} | ({} if in_a_sidecar else {resource: "1"}))
    decided = decide(pod(containers=[task, side]), policies(mode))
    assert decided.code == "other-gpu-system"
    can_be_opened = resource.startswith("nvidia.com/")
    what = "may be a GPU" if can_be_opened else "is another way to share GPUs"
    assert decided.message.startswith(f"{resource} {what} and cannot be combined with {LABEL}: ")
    assert decided.message.endswith("list it in the policy's allow.resources") is can_be_opened


def test_a_resource_of_nvidias_that_the_policy_knows_for_no_gpu_stays():
    found = pod(containers=[container(limits={"nvidia.com/hostdev": "1"})])
    decided = decide(found, policies("allow: {resources: [nvidia.com/hostdev]}"))
    assert decided.container()["resources"]["limits"] == {"nvidia.com/hostdev": "1", "nvidia.com/gpu-0": "4"}


@pytest.mark.parametrize("name", DEVICE_ANNOTATIONS)
@pytest.mark.parametrize("suffix", ["", "/pod", "/container.train", "/a"])
def test_annotations_by_which_a_runtime_or_its_plugins_give_devices_are_denied(name, suffix):
    decided = decide(pod(metadata={"annotations": {name + suffix: "nvidia.com/gpu=all"}}))
    assert decided.code == "cdi-annotation"
    assert decided.message == (
        f"annotation {name}{suffix} injects devices in addition to the share: remove it or the label {LABEL}"
    )


@pytest.mark.parametrize(
    "path",
    [
        "/var/run/nvidia-container-devices/all",
        "/run/nvidia-container-devices",
        "//var/run/nvidia-container-devices/0",
        "/var/run/nvidia-container-devicesall",
    ],
)
def test_device_lists_by_mounts_are_denied_in_any_container(path):
    side = container("side", volumeMounts=[{"name": "x", "mountPath": path}])
    decided = decide(pod(containers=[container("task"), side]))
    assert decided.code == "mount-path"
    assert decided.message == (
        f'container "side" mounts {path}, which selects GPUs in addition to the share: remove the mount'
    )


@pytest.mark.parametrize(
    ("own", "others", "resource"),
    [
        ("", "{mode: pooled, name: example.com/slice}", "example.com/slice"),
        ("resources: {mode: pooled}", "{name: 'example.com/gpu-{index}'}", "example.com/gpu-0"),
    ],
)
@pytest.mark.parametrize("in_a_sidecar", [False, True])
def test_slices_under_the_name_of_another_policy_are_denied(own, others, resource, in_a_sidecar):
    """Else the pod would hold them in addition to its share."""
    side = container("side", limits={resource: "8"} if in_a_sidecar else None)
    task = container("task", limits={"nvidia.com/gpu": "1"} | ({} if in_a_sidecar else {resource: "8"}))
    other = f"kind: Policy\nname: other\nnamespaces: [others]\nresources: {others}"
    decided = decide(pod(containers=[task, side]), policies(own, other=other))
    assert decided.code == "other-gpu-system"
    assert decided.message.startswith(
        f"{resource} is another way to share GPUs and cannot be combined with {LABEL}: "
    )


@pytest.mark.parametrize("field", ["limits", "requests"])
@pytest.mark.parametrize("name", ["train", "side"])
def test_a_gpu_index_brought_by_the_pod_is_denied(field, name):
    found = pod(containers=[container("train"), container("side")], metadata={"name": "train"})
    chosen = 0 if name == "train" else 1
    found["spec"]["containers"][chosen]["resources"] = {field: {"nvidia.com/gpu-3": "4"}}
    found["metadata"]["annotations"] = {"clearml-injector/container": name}
    decided = decide(found)
    assert decided.code == "gpu-index-set"
    assert decided.message == (
        f'container "{name}" requests nvidia.com/gpu-3: remove it, the injector chooses the GPU of a pod'
        " with the label clearml-injector/fraction"
    )


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/gpumem",
        "nvidia.com/priority",
        "volcano.sh/vgpu-number",
        "aliyun.com/gpu-mem",
        "amd.com/gpu",
        "habana.ai/gaudi",
    ],
)
@pytest.mark.parametrize("init", [False, True])
def test_requests_of_other_systems_are_denied_wherever_they_stand(resource, init):
    side = container("side", limits={resource: "1"})
    found = pod(initContainers=[side]) if init else pod(containers=[container("task"), side])
    decided = decide(found)
    assert decided.code == "other-gpu-system"
    assert decided.message == (
        f"{resource} is another way to share GPUs and cannot be combined with clearml-injector/fraction:"
        " remove one of the two"
    )


@pytest.mark.parametrize(
    "annotation", [*sorted(OURS_INSTEAD), "mig-profile", "kai.scheduler/container.train.gpus.devices"]
)
def test_annotations_of_other_systems_are_denied_with_ours_where_there_is_one(annotation):
    decided = decide(pod(metadata={"annotations": {annotation: "0.5"}}))
    assert decided.code == "other-gpu-system"
    said = f"annotation {annotation} is another way to share GPUs and cannot be combined with {LABEL}: "
    ours = OURS_INSTEAD.get(annotation)
    assert decided.message == said + (f"use {ours} instead" if ours else "remove one of the two")
