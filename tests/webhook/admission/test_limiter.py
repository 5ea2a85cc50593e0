"""What a limiter puts into the pod: volumes, mounts and an init container."""

import pytest

from tests.webhook.support import CACHE, LABEL, LIBRARY, Webhook, container, decide, pod, policies, reviewed

WHOLE = 'fractions: {"0.500": 4, "1.000": 8, "2": 16}\nassume: {gpusPerNode: 8, gpuMemoryMiB: 81920}'


def test_whole_gpus_get_no_limiter():
    decided = decide(pod(fraction="1.000"), policies(WHOLE))
    assert decided.env() == []
    assert "volumes" not in decided.spec
    assert "initContainers" not in decided.spec


INIT = {
    "name": "gpu-limiter",
    "image": "docker.io/projecthami/hamicore:v2.10.0",
    "command": ["sh", "-c", "cp /k8s-vgpu/lib/nvidia/libvgpu.so.* /usr/local/vgpu/libvgpu.so"],
    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    "volumeMounts": [{"name": "gpu-limiter-library", "mountPath": "/usr/local/vgpu"}],
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "imagePullPolicy": "IfNotPresent",
}


@pytest.mark.parametrize("spec", [{}, {"volumes": None, "initContainers": None}, {"volumes": []}])
def test_the_limiter_gets_a_library_volume_a_cache_and_its_init_container(spec):
    decided = decide(pod(**spec))
    assert decided.spec["volumes"] == [
        {"name": "gpu-limiter-library", "emptyDir": {"sizeLimit": "32Mi"}},
        {"name": "gpu-limiter-cache-train", "emptyDir": {"sizeLimit": "8Mi"}},
    ]
    assert decided.container()["volumeMounts"] == [
        {"name": "gpu-limiter-library", "mountPath": LIBRARY, "readOnly": True},
        {"name": "gpu-limiter-cache-train", "mountPath": CACHE},
    ]
    assert decided.spec["initContainers"] == [INIT]


def test_the_users_volumes_and_mounts_stay_before_ours():
    volume, mount = {"name": "data", "emptyDir": {}}, {"name": "data", "mountPath": "/data", "subPath": "a"}
    decided = decide(pod(containers=[container(volumeMounts=[mount])], volumes=[volume]))
    assert decided.spec["volumes"][0] == volume
    assert decided.container()["volumeMounts"][0] == mount
    assert len(decided.spec["volumes"]) == len(decided.container()["volumeMounts"]) == 3


@pytest.mark.parametrize(
    "path",
    [
        "/usr/local/vgpu",
        "/usr/local/vgpu/",
        "//usr/local//vgpu",
        "/usr/local/vgpu/libvgpu.so",
        "/usr/local/./vgpu/x",
        "/usr/share/../local/vgpu",
        "usr/local/vgpu",
        "/usr/local/vgpu-cache",
        "/usr/local/vgpu-cache/train.cache",
    ],
)
def test_a_user_mount_at_or_below_the_limiters_paths_is_denied(path):
    found = pod(
        containers=[container(volumeMounts=[{"name": "data", "mountPath": path}])],
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    decided = decide(found)
    assert decided.code == "mount-path"
    assert decided.message == (
        f'container "train" mounts {path}, a path of the GPU memory limiter: use another path'
    )


@pytest.mark.parametrize(
    "path", ["/usr/local", "/usr/local/vgpu2", "/usr/local/vgpu-caches", "/mnt/usr/local/vgpu"]
)
def test_a_user_mount_next_to_or_above_them_is_not(path):
    found = pod(containers=[container(volumeMounts=[{"name": "data", "mountPath": path}])])
    assert decide(found).allowed


def test_a_mount_there_in_a_container_without_a_share_is_its_own_affair():
    side = container("side", volumeMounts=[{"name": "data", "mountPath": LIBRARY}])
    assert decide(pod(containers=[container("task"), side])).allowed


def test_without_a_limiter_nothing_is_mounted_and_nothing_refused():
    found = pod(containers=[container(volumeMounts=[{"name": "data", "mountPath": LIBRARY}])])
    decided = decide(found, policies("limiter: none"))
    assert "initContainers" not in decided.spec
    assert len(decided.container()["volumeMounts"]) == 1


@pytest.mark.parametrize(
    ("own", "copied"),
    [
        ({"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1", "memory": "4Gi"}}, True),
        ({"requests": {"cpu": 1}}, True),
        ({"limits": {"memory": "1Gi"}, "requests": None}, True),
        ({"limits": {"ephemeral-storage": "1Gi", "nvidia.com/gpu": "1"}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_our_init_container_copies_only_cpu_and_memory(own, copied):
    found = pod()
    found["spec"]["containers"][0]["resources"] = own
    ours = decide(found).spec["initContainers"][0]
    if not copied:
        assert "resources" not in ours
    else:
        assert ours["resources"] == {field: amounts for field, amounts in own.items() if amounts}


def test_our_init_container_comes_first():
    decided = decide(pod(initContainers=[container("a"), container("b", restartPolicy="Always")]))
    assert [each["name"] for each in decided.spec["initContainers"]] == ["gpu-limiter", "a", "b"]


DIGEST = "sha256:" + "0123456789abcdef" * 4
PINNED = f"docker.io/projecthami/hamicore:v2.10.0@{DIGEST}"
BY_DIGEST = f"kind: Limiter\nname: hami-core\nextends: hami-core\ninitContainer: {{image: '{PINNED}'}}\n"


def test_a_limiter_by_digest_is_written_as_it_stands_and_known_again():
    """Tag and digest: people read the one, the runtime pulls by the other."""
    webhook = Webhook(policies(pinned=BY_DIGEST))
    first = webhook.decide(pod())
    assert first.container("gpu-limiter")["image"] == PINNED


@pytest.mark.parametrize(
    "image",
    [
        PINNED.partition("@")[0],
        PINNED.replace("0123", "3210"),
        PINNED.replace(":v2.10.0", ""),
        PINNED.replace("docker.io/", ""),
    ],
)
def test_another_image_than_that_of_the_digest_is_not_believed(image):
    webhook = Webhook(policies(pinned=BY_DIGEST))
    stored = webhook.decide(pod()).stored
    stored["spec"]["initContainers"][0]["image"] = image
    again = webhook.decide(stored)
    assert [each["image"] for each in again.spec["initContainers"]] == [PINNED, image]
    assert webhook.decide(again.stored).patch == []


def test_an_edited_copy_of_an_admitted_pod_is_denied_in_one_line():
    webhook, stored = reviewed()
    del stored["metadata"]["annotations"]
    stored["metadata"]["labels"][LABEL] = "0.250"
    decided = webhook.decide(stored)
    assert decided.code == "mount-path"
    assert decided.message == (
        "the pod is an edited copy of an admitted one: leave out its GPU amounts, the affinity to"
        " nvidia.com/gpu.memory, and containers, volumes and mounts gpu-limiter*"
    )
