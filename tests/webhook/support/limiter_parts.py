"""Whether a pod really runs under the limiter, said a second time by the documents: preset hami-core."""

import posixpath

from tests.webhook.support import CACHE, LIBRARY, container, pod

OURS = {
    "image": "docker.io/projecthami/hamicore:v2.10.0",
    "command": ["sh", "-c", "cp /k8s-vgpu/lib/nvidia/libvgpu.so.* /usr/local/vgpu/libvgpu.so"],
    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 65534,
    },
}
SECRETS = "/var/run/secrets/"
HARMLESS = {"name", "resources", "imagePullPolicy"}
DEFAULTS = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
KEPT = [{"resourceName": name, "restartPolicy": "NotRequired"} for name in ("cpu", "memory")]


def cleaned(found):
    """A JSON value without what is as good as absent."""
    if isinstance(found, dict):
        return {
            name: kept for name, value in found.items() if (kept := cleaned(value)) not in (None, "", [], {})
        }
    return [cleaned(value) for value in found] if isinstance(found, list) else found


def fills(init, volume):
    """Whether an init container is ours for this volume, to the last field."""
    said = {name: value for name, value in cleaned(init).items() if name not in HARMLESS}
    for name, value in DEFAULTS.items():
        if said.get(name) == value:
            del said[name]
    if said.get("resizePolicy") in (KEPT, KEPT[:1], KEPT[1:]):
        del said["resizePolicy"]
    mounts = [mount for mount in said.pop("volumeMounts", []) if not is_token(mount)]
    return said == OURS and mounts == [{"name": volume, "mountPath": LIBRARY}]


def is_token(mount):
    path = mount.get("mountPath", "")
    return mount.get("readOnly") is True and posixpath.normpath(path) == path and path.startswith(SECRETS)


def at(container, place):
    """Mounts of a container at or below a place."""
    return [
        mount
        for mount in cleaned(container.get("volumeMounts") or [])
        if f"{posixpath.normpath('/' + mount.get('mountPath', '').lstrip('/'))}/".startswith(f"{place}/")
    ]


def check_limiter(pod):
    """Assert that every GPU container has a library of our init container, and a cache."""
    spec = pod["spec"]
    inits = spec["initContainers"]
    everyone = [*inits, *spec["containers"]]
    gpu = [each for each in everyone if has_gpu(each)]
    assert gpu
    (volume,) = {mount["name"] for each in gpu for mount in at(each, LIBRARY)}
    check_volume(spec, volume, "32Mi")
    ours = [position for position, each in enumerate(inits) if fills(each, volume)]
    assert all(min(ours) < position for position, each in enumerate(inits) if has_gpu(each))
    for each in gpu:
        assert at(each, LIBRARY) == [{"name": volume, "mountPath": LIBRARY, "readOnly": True}]
        (cache,) = at(each, CACHE)
        assert cache == {"name": cache["name"], "mountPath": CACHE}
        check_volume(spec, cache["name"], "8Mi")
        assert users(everyone, cache["name"]) == [each["name"]]
        check_env(each)
    fillers = [inits[position]["name"] for position in ours]
    assert sorted(users(everyone, volume)) == sorted([*fillers, *(each["name"] for each in gpu)])


def has_gpu(container):
    return any(
        name.startswith("nvidia.com/gpu-") for name in (container.get("resources") or {}).get("limits") or {}
    )


def users(everyone, volume):
    """Names of containers, one for each mount of a volume."""
    return [
        each["name"]
        for each in everyone
        for field in ("volumeMounts", "volumeDevices")
        for mount in (each.get(field) if isinstance(each.get(field), list) else [])
        if isinstance(mount, dict) and mount.get("name") == volume
    ]


def check_volume(spec, name, size):
    (volume,) = [cleaned(volume) for volume in spec["volumes"] if volume["name"] == name]
    assert volume in (
        {"name": name, "emptyDir": {"sizeLimit": size}},
        {"name": name, "emptyDir": {"sizeLimit": f"{int(size[:-2]) * 1024}Ki"}},
    )


def check_env(container):
    last = {entry["name"]: entry for entry in container["env"]}
    assert last["LD_PRELOAD"]["value"].split(":")[0] == f"{LIBRARY}/libvgpu.so"
    assert last["CUDA_DEVICE_MEMORY_LIMIT_0"]["value"].endswith("m")
    assert not {"CUDA_REDIRECT", "CUDA_DISABLE_CONTROL"} & set(last)


def with_gpu_init():
    return pod(
        initContainers=[container("warm", limits={"nvidia.com/gpu": "1"}), container("setup")],
        containers=[container(volumeMounts=[{"name": "data", "mountPath": "/data"}])],
        volumes=[{"name": "data", "emptyDir": {}}],
    )


def check_again(changed, webhook, count):
    """The limiter is in effect after the review, by an init container more, and stays as it is."""
    again = webhook.decide(changed)
    assert again.code == "injected", again.reply
    assert len(again.spec["initContainers"]) == len(changed["spec"]["initContainers"] or ()) + count
    check_limiter(again.stored)
    assert webhook.decide(again.stored).patch == []
