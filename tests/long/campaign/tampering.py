"""Ways to tamper with a pod: with what the limiter needs, with what it claims, and with what it asks."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from tests.webhook.support import LABEL

Object = dict[str, Any]
Tamper = Callable[[Object, random.Random], None]

FRACTIONS = [f"0.{eighths * 125:03d}" for eighths in range(1, 8)]
IMAGES = ["evil.example/x:1", "docker.io/projecthami/hamicore:v2.10.0", "", None]
VARIABLES = [
    "CUDA_DEVICE_MEMORY_LIMIT_0",
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DISABLE_CONTROL",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_REDIRECT",
    "LD_PRELOAD",
    "NVIDIA_VISIBLE_DEVICES",
    "PATH",
]
TEXTS = [
    "",
    "void",
    "all",
    "1",
    "99999m",
    "/evil.so",
    "/usr/local/vgpu/libvgpu.so",
    "/usr/local/vgpu/libvgpu.so /x.so",
    "é",
]
PATHS = [
    "/usr/local/vgpu",
    "/usr/local/vgpu/",
    "/usr/local//vgpu",
    "/usr/local/./vgpu/libvgpu.so",
    "/usr/local/vgpu-cache",
    "/var/run/secrets/x",
    "/var/run/secrets/../../../k8s-vgpu/lib/nvidia",
    "/run/secrets/../../usr/local/vgpu",
    "/k8s-vgpu/lib/nvidia",
    "/overrideEnv",
    "/bin",
    "/",
    "/var/run/nvidia-container-devices/all",
    "/data",
]
HOST_PATHS = [
    "/",
    "/dev",
    "//dev/nvidia0",
    "/var/lib/kubelet",
    "/etc/kubernetes",
    "/etc",
    "/data",
    "/var/run/../run/nvidia",
    "/sys/../sys/kernel",
    "/var/lib/containerd",
    "/dev/infiniband",
    "/var/lib/clearml-injector/library",
    "/etc/rancher/k3s",
    "/var/run/dockershim.sock",
    "/var/snap/microk8s/common/var/lib/kubelet",
]
ANNOTATIONS = ["injected", "slices", "gpu-index", "gpu-container", "memory-mib", "reservation", "container"]
ASKED = {
    "gpu-model": ["A100", "A10*,H100", "*", "T4", "-", ",,"],
    "min-gpu-memory": ["1Gi", "20Gi", "23029Mi", "40Gi", "500Gi", "4G"],
    "gpus": ["1", "2", "3", "16", "0", "two"],
    "containers": ["train=0.250,side=0.250", "train=3Gi,eval=1Gi", "train=1", "side=0.125,train=0.375", ""],
}
"""What a pod's author says in addition to the label, right and wrong."""


def containers_of(found: Object) -> list[Object]:
    spec = found.get("spec") or {}
    return [
        one
        for field in ("initContainers", "containers")
        for one in spec.get(field) or []
        if isinstance(one, dict)
    ]


def ours_of(found: Object) -> list[Object]:
    return [
        one for one in containers_of(found) if str(one.get("name", "")).startswith("gpu-limiter")
    ] or containers_of(found)[:1]


def change_ours(found: Object, dice: random.Random) -> None:
    """Change one field of our init container."""
    for one in ours_of(found)[:1]:
        name, value = dice.choice(
            [
                ("image", dice.choice(IMAGES)),
                ("command", dice.choice([["sh", "-c", "true"], [], None])),
                ("args", ["-x"]),
                (
                    "env",
                    [*(one.get("env") or []), {"name": dice.choice(VARIABLES), "value": dice.choice(TEXTS)}],
                ),
                ("env", []),
                ("envFrom", [{"configMapRef": {"name": "evil"}}]),
                ("workingDir", "/x"),
                ("restartPolicy", dice.choice(["Always", "OnFailure"])),
                ("lifecycle", {"postStart": {"exec": {"command": ["true"]}}}),
                ("startupProbe", {"exec": {"command": ["true"]}}),
                ("volumeDevices", [{"name": "raw", "devicePath": "/k8s-vgpu"}]),
                ("securityContext", {**(one.get("securityContext") or {}), "runAsUser": 0}),
                ("securityContext", None),
                ("name", dice.choice(["gpu-limiter", "gpu-limiter-2", "other"])),
                ("resources", {"limits": {"cpu": "1", "nvidia.com/gpu-0": "1"}}),
                ("stdin", True),
                ("x-future", {"a": 1}),
            ]
        )
        one[name] = value


def add_mount(found: Object, dice: random.Random) -> None:
    """Mount a volume, ours or another, into any container."""
    everyone = containers_of(found)
    volumes = [
        each.get("name") for each in (found.get("spec") or {}).get("volumes") or [] if isinstance(each, dict)
    ]
    if everyone:
        mount: Object = {"name": dice.choice([*volumes, "data"]), "mountPath": dice.choice(PATHS)}
        if dice.random() < 0.5:
            mount["readOnly"] = dice.choice([True, False, None])
        if dice.random() < 0.2:
            mount[dice.choice(["subPath", "subPathExpr", "mountPropagation"])] = dice.choice(
                ["x", "Bidirectional"]
            )
        one = dice.choice(everyone)
        one["volumeMounts"] = [*(one.get("volumeMounts") or []), mount]


def change_mount(found: Object, dice: random.Random) -> None:
    """Change a mount that is there."""
    mounts = [
        each
        for one in containers_of(found)
        for each in one.get("volumeMounts") or []
        if isinstance(each, dict)
    ]
    if mounts:
        name, value = dice.choice(
            [
                ("readOnly", False),
                ("readOnly", None),
                ("mountPath", dice.choice(PATHS)),
                ("subPath", "x"),
                ("name", "data"),
            ]
        )
        dice.choice(mounts)[name] = value


def add_container(found: Object, dice: random.Random) -> None:
    """Copy a container, changed or not, to any place among the init containers or the regular ones."""
    everyone, spec = containers_of(found), found.get("spec") or {}
    if everyone and isinstance(spec, dict):
        one = copy.deepcopy(dice.choice(everyone))
        one["name"] = dice.choice([one.get("name"), "gpu-limiter", "evil", "train"])
        field = dice.choice(["initContainers", "containers"])
        around = spec.get(field) or []
        around.insert(dice.randint(0, len(around)), one)
        spec[field] = around


def reorder(found: Object, dice: random.Random) -> None:
    """Shuffle the init containers: ours may come too late."""
    around = (found.get("spec") or {}).get("initContainers")
    if isinstance(around, list):
        dice.shuffle(around)


def change_volume(found: Object, dice: random.Random) -> None:
    """Give a volume another source, or add one."""
    spec = found.get("spec") or {}
    volumes = [each for each in spec.get("volumes") or [] if isinstance(each, dict)]
    source = dice.choice(
        [
            {"hostPath": {"path": dice.choice(HOST_PATHS)}},
            {"emptyDir": {}},
            {"emptyDir": {"sizeLimit": "32Mi", "medium": "Memory"}},
            {"emptyDir": {"sizeLimit": "32Mi"}, "hostPath": {"path": "/data"}},
            {"persistentVolumeClaim": {"claimName": "x"}},
            {"configMap": {"name": "x"}},
        ]
    )
    if volumes and dice.random() < 0.6:
        one = dice.choice(volumes)
        name = one.get("name")
        one.clear()
        one.update({"name": name, **source})
    else:
        spec["volumes"] = [*volumes, {"name": dice.choice(["data", "gpu-limiter-library", "x"]), **source}]


def change_annotation(found: Object, dice: random.Random) -> None:
    """Claim something else of the injection."""
    metadata = found.setdefault("metadata", {}) or {}
    said = metadata.get("annotations") or {}
    values = [
        *said.values(),
        "",
        "0",
        "1",
        "7",
        "9999",
        "00",
        "0,1",
        "²",
        "4",
        "8",
        "81920",
        "train",
        "default@x",
    ]
    said["clearml-injector/" + dice.choice(ANNOTATIONS)] = dice.choice(values)
    metadata["annotations"] = said


def ask_otherwise(found: Object, dice: random.Random) -> None:
    """Ask for another kind of GPU, for several GPUs, for parts, or for memory instead of a fraction."""
    metadata = found.setdefault("metadata", {}) or {}
    if dice.random() < 0.3:
        labels = metadata.get("labels") or {}
        if dice.random() < 0.8:
            labels.pop(LABEL, None)
        labels["clearml-injector/gpu-memory"] = dice.choice(["1Gi", "4Gi", "11518Mi", "20Gi", "80Gi", "4G"])
        metadata["labels"] = labels
        return
    said = metadata.get("annotations") or {}
    name = dice.choice(list(ASKED))
    said[f"clearml-injector/{name}"] = dice.choice(ASKED[name])
    metadata["annotations"] = said


def change_env(found: Object, dice: random.Random) -> None:
    """Add a variable to any container, at any place."""
    everyone = containers_of(found)
    if everyone:
        one = dice.choice(everyone)
        env = list(one.get("env") or []) if isinstance(one.get("env"), list | None) else []
        entry: Object = {"name": dice.choice(VARIABLES)}
        entry |= (
            {"value": dice.choice(TEXTS)}
            if dice.random() < 0.8
            else {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        )
        env.insert(dice.randint(0, len(env)), entry)
        one["env"] = env


def change_amount(found: Object, dice: random.Random) -> None:
    """Ask for something else of a GPU."""
    everyone = containers_of(found)
    if everyone:
        names = [
            "nvidia.com/gpu",
            "nvidia.com/gpu-0",
            "nvidia.com/gpu-1",
            "nvidia.com/gpu-9999",
            "nvidia.com/gpu.shared",
        ]
        names += [
            "nvidia.com/gpumem",
            "nvidia.com/new",
            "clear.ml/fraction-1",
            "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        ]
        one, name, amount = (
            dice.choice(everyone),
            dice.choice(names),
            dice.choice(["0", "1", "4", "8", "500m", 4, "4.0", "-1"]),
        )
        resources = one.get("resources") if isinstance(one.get("resources"), dict) else {}
        for field in ("limits", "requests") if dice.random() < 0.8 else ("limits",):
            resources[field] = {**(resources.get(field) or {}), name: amount}
        one["resources"] = resources


def change_affinity(found: Object, dice: random.Random) -> None:
    """Bind the pod to other memory, in a term of its own or in all."""
    spec = found.get("spec") or {}
    expression = {
        "key": "nvidia.com/gpu.memory",
        "operator": dice.choice(["In", "NotIn"]),
        "values": [dice.choice(["8", "81920", "x"])],
    }
    term = dice.choice(
        [{}, {"matchExpressions": [expression]}, {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
    )
    affinity = spec.get("affinity") if isinstance(spec.get("affinity"), dict) else {}
    node = affinity.get("nodeAffinity") if isinstance(affinity.get("nodeAffinity"), dict) else {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = (node.get(required) or {}).get("nodeSelectorTerms") or []
    node[required] = {"nodeSelectorTerms": dice.choice([[*terms, term], [term], [term, *terms]])}
    affinity["nodeAffinity"] = node
    spec["affinity"] = affinity


def change_context(found: Object, dice: random.Random) -> None:
    """Take rights, on a container or for the pod."""
    everyone, spec = containers_of(found), found.get("spec") or {}
    if everyone and dice.random() < 0.7:
        context = dice.choice(
            [
                {"privileged": True},
                *(
                    {"capabilities": {"add": [name]}}
                    for name in ("SYS_ADMIN", "CAP_SYS_ADMIN", "all", "NET_BIND_SERVICE")
                ),
            ]
        )
        dice.choice(everyone)["securityContext"] = context
    else:
        spec[dice.choice(["hostPID", "hostIPC", "shareProcessNamespace"])] = True


def relabel(found: Object, dice: random.Random) -> None:
    """Ask for another share, or for none."""
    metadata = found.get("metadata") or {}
    labels = metadata.get("labels") or {}
    labels[LABEL] = dice.choice([*FRACTIONS, "1.000", "2", "0.5", "x", ""])
    metadata["labels"] = labels


TAMPERS: list[Tamper] = [
    change_ours,
    change_ours,
    add_mount,
    change_mount,
    add_container,
    reorder,
    change_volume,
    change_annotation,
    ask_otherwise,
    change_env,
    change_amount,
    change_affinity,
    change_context,
    relabel,
]
