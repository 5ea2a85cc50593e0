"""Containers that join a labelled pod after its creation."""

import pytest

from testbed.registration import labelled_pod
from tests.control_plane.admission_policies.support import large_pod, refused

STRATEGIC = "application/strategic-merge-patch+json"
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}


def debug(api, namespace, pod, env, name="debug", **more):
    container = {"name": name, "image": "example.com/debug:1", "env": env, **more}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/ephemeralcontainers"
    patch = {"spec": {"ephemeralContainers": [container]}}
    return api.call("PATCH", path, patch, content=STRATEGIC)


SEES = (
    "ephemeral container debug could see every GPU of the node: "
    "set its env NVIDIA_VISIBLE_DEVICES=void, such as by kubectl debug --env"
)
RIGHTS = (
    "ephemeral container debug %s, which bypasses the share of a GPU: use kubectl debug --profile=baseline"
)
SETS = "ephemeral container debug sets %s, which no container of this pod may set: remove it"
CAPABILITIES = {"drop": ["ALL"], "add": ["KILL", "SYS_PTRACE"]}
REFUSED = [
    *((env, {}, SEES) for env in ([], [ALL], [VOID, ALL], [ALL, VOID])),
    *(
        ([VOID, {"name": name, "value": "x"}], {}, SETS % name)
        for name in ("CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_GPU_MEMORY_LIMITS", "NVIDIA_IMEX_CHANNELS")
    ),
    ([VOID], {"privileged": True}, RIGHTS % "is privileged"),
    ([VOID], {"capabilities": CAPABILITIES}, RIGHTS % "adds capability SYS_PTRACE"),
    *(
        ([VOID], {"capabilities": {"add": [name]}}, RIGHTS % f"adds capability {name}")
        for name in ("SYS_ADMIN", "ALL", "CAP_SYS_ADMIN")
    ),
]


def test_an_ephemeral_container_that_could_see_gpus_or_change_limits_is_refused(
    injected, control_plane, namespace
):
    for env, context, message in REFUSED:
        with refused("ephemeral-containers", message):
            debug(control_plane.api, namespace, "injected", env, securityContext=context)


def test_pods_without_the_label_take_any_ephemeral_container(unlabelled, control_plane, namespace):
    made = debug(control_plane.api, namespace, "unlabelled", [ALL])
    assert made["spec"]["ephemeralContainers"][0]["env"] == [ALL]


@pytest.fixture
def injected(lock, control_plane, namespace):
    """An injected pod with a volume of its own."""
    pod = labelled_pod("injected", "0.500", volumes=[{"name": "mine", "emptyDir": {}}])
    return control_plane.api.create(pod, namespace)


def mounts_of(container, volume, path):
    """What is said of a mount."""
    return (
        f"ephemeral container {container} mounts volume {volume} at {path}: volumes of the limiter,"
        ' nvidia-container-devices, and paths with dots or "//" are not allowed: remove the mount'
    )


DEVICE_LISTS = [
    "/var/run/nvidia-container-devices",
    "/run/nvidia-container-devices/all",
    "/run/nvidia-container-devicesall",
    "var/run/nvidia-container-devices/0",
    "/var//run/nvidia-container-devices/0",
    "/var/run/./nvidia-container-devices/0",
    "/mnt/../var/run/nvidia-container-devices/0",
]


def test_an_ephemeral_container_may_have_no_volume_of_the_limiter_and_no_list_of_devices(
    injected, control_plane, namespace
):
    mounts = injected["spec"]["containers"][0]["volumeMounts"]
    ours = [(each["name"], "/mine") for each in mounts if each["mountPath"].startswith("/usr/local/vgpu")]
    assert len(ours) == 2
    for volume, path in [*ours, *(("mine", path) for path in DEVICE_LISTS)]:
        mounts = [{"name": volume, "mountPath": path}]
        with refused("ephemeral-containers", mounts_of("debug", volume, path)):
            debug(control_plane.api, namespace, "injected", [VOID], volumeMounts=mounts)


def test_an_ephemeral_container_keeps_what_harms_nobody(injected, control_plane, namespace):
    mounts = [{"name": "mine", "mountPath": "/var/run/mine.d/.cache/"}]
    context = {"privileged": False, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}
    more = {"volumeMounts": mounts, "securityContext": context}
    debug(control_plane.api, namespace, "injected", [VOID], **more)
    made = debug(control_plane.api, namespace, "injected", [VOID], "second")
    found = {each["name"]: each.get("volumeMounts") for each in made["spec"]["ephemeralContainers"]}
    assert found == {"debug": mounts, "second": None}


def test_a_large_pod_is_within_what_the_api_server_computes(lock, control_plane, namespace):
    control_plane.api.create(large_pod("large"), namespace)
    mounts = [{"name": f"volume-{n}", "mountPath": f"/mnt/{n}"} for n in range(40)]
    for n in range(5):
        debug(control_plane.api, namespace, "large", [VOID] * 50, f"debug-{n}", volumeMounts=mounts)
    with refused("ephemeral-containers", mounts_of("last", "gpu-limiter-library", "/mine")):
        mounts.append({"name": "gpu-limiter-library", "mountPath": "/mine"})
        debug(control_plane.api, namespace, "large", [VOID], "last", volumeMounts=mounts)
