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


@pytest.mark.parametrize("name", ["SYS_ADMIN", "CAP_SYS_ADMIN", "Cap_Sys_Admin", "all", "CAP_ALL"])
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
    # The log of a container's last words: over the library, it is an empty file.
    lambda path: {"terminationMessagePath": path},
]
OF_SETTINGS = "; /overrideEnv is reserved for settings of the GPU memory limiter: use another path"
OF_LIMITER = ", a path of the GPU memory limiter: use another path"
OF_DEVICES = ", which selects GPUs in addition to the share: remove the mount"


@pytest.mark.parametrize("fields", SEEN)
@pytest.mark.parametrize(
    ("path", "rule", "is_denied_to_others"),
    [
        *((path, OF_SETTINGS, False) for path in ("/overrideEnv", "//overrideEnv/", "/./overrideEnv/x", "/")),
        *((path, OF_LIMITER, False) for path in ("/usr/local/vgpu/libvgpu.so", "usr/local/vgpu/")),
        ("/usr/share/../local//vgpu-cache/x", OF_LIMITER, False),
        ("/var/run/nvidia-container-devices/all", OF_DEVICES, True),
        ("//run/nvidia-container-devices", OF_DEVICES, True),
        ("/var/run/nvidia-container-devicesall", OF_DEVICES, True),
    ],
)
def test_what_covers_the_limiter_or_gives_devices_is_denied(path, rule, is_denied_to_others, fields):
    decided = decide(pod(containers=[container(**fields(path))]))
    assert decided.code == "mount-path"
    assert decided.message == f'container "train" mounts {path}{rule}'
    both = [container("task"), container("side", **fields(path))]
    assert decide(pod(containers=both)).code == ("mount-path" if is_denied_to_others else "injected")


@pytest.mark.parametrize("text", ["limiter: none", "allow: {overrideEnv: true}"])
def test_settings_are_left_alone_where_nobody_reads_them_or_the_policy_allows_it(text):
    fields = SEEN[0]("/overrideEnv")
    assert decide(pod(containers=[container(**fields)]), policies(text)).allowed


OTHER_SYSTEM = f" is another way to share GPUs and cannot be combined with {LABEL}: remove one of the two"
UNKNOWN = (
    f" may be a GPU and cannot be combined with {LABEL}: remove one of the two,"
    " or ask the admin to list it in the policy's allow.resources"
)
OTHERS = [
    *("nvidia.com/mig-1g.10gb", "nvidia.com/gpumem", "nvidia.com/priority", "volcano.sh/vgpu-number"),
    *("aliyun.com/gpu-mem", "amd.com/gpu", "habana.ai/gaudi", "nvidia.com/GA102GL_A10", "nvidia.com/gpu-x"),
    *("nvidia.com/hostdev", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"),
]
SLICE = "{mode: pooled, name: example.com/slice}"


@pytest.mark.parametrize(
    ("resource", "own", "others"),
    [
        *((resource, "", "{}") for resource in OTHERS),
        *((resource, "pooled", "{}") for resource in OTHERS[-4:]),
        # Under the names of another policy, the pod would hold slices in addition to its share.
        ("example.com/slice", "", SLICE),
        ("example.com/gpu-0", "pooled", "{name: 'example.com/gpu-{index}'}"),
    ],
)
@pytest.mark.parametrize("place", ["task", "side", "init"])
def test_another_way_to_a_gpu_is_denied_wherever_it_stands(resource, own, others, place):
    asks = {name: {resource: "1"} if name == place else {} for name in ("task", "side", "init")}
    containers = [container("task", limits=GPU | asks["task"]), container("side", limits=asks["side"])]
    found = pod(containers=containers, initContainers=[container("init", limits=asks["init"])])
    other = f"kind: Policy\nname: other\nnamespaces: [others]\nresources: {others}"
    decided = decide(found, policies(f"resources: {{mode: {own or 'per-gpu'}}}", other=other))
    assert decided.code == "other-gpu-system"
    is_unknown = resource in {"nvidia.com/hostdev", "nvidia.com/gpu-x", "nvidia.com/GA102GL_A10"}
    assert decided.message == resource + (UNKNOWN if is_unknown else OTHER_SYSTEM)


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


@pytest.mark.parametrize("field", ["limits", "requests"])
@pytest.mark.parametrize("name", ["train", "side"])
def test_a_gpu_index_brought_by_the_pod_is_denied(field, name):
    asks = container(name, resources={field: {"nvidia.com/gpu-3": "4"}})
    found = pod(containers=[asks, container("other")])
    found["metadata"]["annotations"] = {"clearml-injector/container": name}
    decided = decide(found)
    assert decided.code == "gpu-index-set"
    assert decided.message == (
        f'container "{name}" requests nvidia.com/gpu-3: remove it, the injector chooses the GPU of a pod'
        f" with the label {LABEL}"
    )


@pytest.mark.parametrize(
    "annotation", [*sorted(OURS_INSTEAD), "mig-profile", "kai.scheduler/container.train.gpus.devices"]
)
def test_annotations_of_other_systems_are_denied_with_ours_where_there_is_one(annotation):
    decided = decide(pod(metadata={"annotations": {annotation: "0.5"}}))
    assert decided.code == "other-gpu-system"
    ours = OURS_INSTEAD.get(annotation)
    rule = OTHER_SYSTEM.replace(
        "remove one of the two", f"use {ours} instead" if ours else "remove one of the two"
    )
    assert decided.message == f"annotation {annotation}{rule}"
