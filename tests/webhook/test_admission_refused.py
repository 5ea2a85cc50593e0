"""Step "refused": what no labelled pod may bring."""

import pytest

from tests.webhook.support import LABEL, container, decide, pod, policies

PRIVILEGED = {"privileged": True}


def test_a_privileged_gpu_container_is_denied():
    decided = decide(pod(containers=[container(securityContext=PRIVILEGED)]))
    assert decided.code == "privileged"
    assert decided.message == (
        'container "train" is privileged and would see every GPU of the node:'
        f" drop securityContext.privileged or the label {LABEL}"
    )


def test_a_privileged_gpu_init_container_is_denied():
    init = container("init", limits={"nvidia.com/gpu": "1"}, securityContext=PRIVILEGED)
    assert decide(pod(initContainers=[init])).code == "privileged"


def test_a_privileged_mesh_init_container_is_not_unless_the_policy_says_so():
    found = pod(initContainers=[container("istio-init", securityContext=PRIVILEGED)])
    assert decide(found).allowed
    assert decide(found, policies("privileged: any-container")).code == "privileged"


def test_host_pid_is_denied_unless_the_limiter_needs_it():
    decided = decide(pod(hostPID=True))
    assert decided.code == "host-pid"
    assert decided.message == (
        f"hostPID lets a pod reach its neighbours' processes on the GPU: remove it or the label {LABEL}"
    )
    image = container(image="clearml/fractional-gpu:u22-cu12.3-2gb")
    decided = decide(pod(hostPID=True, containers=[image]), policies("limiter: clearml-image"))
    assert decided.allowed


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/dev", "/dev"),
        ("//dev", "/dev"),
        ("/./dev/", "/dev"),
        ("/tmp/../dev/nvidia0", "/dev"),  # noqa: S108 a path of a pod, not of this machine
        ("/dev/shm", "/dev"),  # noqa: S108 the same
        ("/", "/dev"),
        ("//", "/dev"),
        ("", "/dev"),
        ("dev", "/dev"),
        ("/proc", "/proc"),
        ("/proc/1/root/dev", "/proc"),
        ("/usr/local/vgpu/x", "/usr/local/vgpu"),
        ("/usr", "/usr/local/vgpu"),
        ("/etc", "/etc/cdi"),
        ("/etc/cdi", "/etc/cdi"),
        ("/var/run/cdi", "/run/cdi"),
        ("/run", "/run/cdi"),
        ("/var/run", "/run/cdi"),
        ("/run/nvidia/driver", "/run/nvidia"),
        ("/var/run/nvidia", "/run/nvidia"),
        ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/device-plugins"),
        ("/var/lib/kubelet", "/var/lib/kubelet/device-plugins"),
        ("/var", "/var/lib/kubelet/device-plugins"),
        ("/run/containerd/containerd.sock", "/run/containerd"),
        ("/var/run/docker.sock", "/run/docker.sock"),
        ("/run/crio/crio.sock", "/run/crio"),
        ("/run/k3s/containerd/containerd.sock", "/run/k3s/containerd"),
        ("/var/snap/microk8s/common/run/containerd.sock", "/var/snap/microk8s/common/run"),
    ],
)
def test_host_paths_that_reach_gpus_or_runtimes_are_denied(path, place):
    decided = decide(pod(volumes=[{"name": "host", "hostPath": {"path": path}}]))
    assert decided.code == "host-path"
    assert decided.message == (
        f'volume "host": hostPath {path} reaches {place}, and with it past the share: remove the volume'
    )


@pytest.mark.parametrize("path", ["/data", "/devices", "/var/log", "/etc/cdi2", "/usr/share", "/run/nvidia2"])
def test_other_host_paths_are_not(path):
    assert decide(pod(volumes=[{"name": "host", "hostPath": {"path": path, "type": "Directory"}}])).allowed


@pytest.mark.parametrize("name", ["cdi.k8s.io/a", "nvidia.cdi.k8s.io/container.train"])
def test_cdi_annotations_are_denied(name):
    decided = decide(pod(metadata={"annotations": {name: "nvidia.com/gpu=all"}}))
    assert decided.code == "cdi-annotation"
    assert decided.message == (
        f"annotation {name} injects devices past the share: remove it or the label {LABEL}"
    )


@pytest.mark.parametrize(
    "path",
    [
        "/var/run/nvidia-container-devices/all",
        "/run/nvidia-container-devices",
        "//var/run/nvidia-container-devices/0",
    ],
)
def test_device_lists_by_mounts_are_denied_in_any_container(path):
    side = container("side", volumeMounts=[{"name": "x", "mountPath": path}])
    decided = decide(pod(containers=[container("task"), side]))
    assert decided.code == "mount-path"
    assert decided.message == (
        f'container "side" mounts {path}, which selects GPUs past the share: remove the mount'
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
    """Else the pod would hold them beside its share."""
    side = container("side", limits={resource: "8"} if in_a_sidecar else None)
    task = container("task", limits={"nvidia.com/gpu": "1"} | ({} if in_a_sidecar else {resource: "8"}))
    other = f"kind: Policy\nname: other\nnamespaces: [others]\nresources: {others}"
    decided = decide(pod(containers=[task, side]), policies(own, other=other))
    assert decided.code == "other-gpu-system"
    assert decided.message.startswith(f"{resource} cannot stand beside {LABEL}: ")
