"""What must hold of every labelled pod that was let in, read off the stored pod only.

Knows nothing of the product's code: per-gpu mode, slices of an eighth, limiter hami-core or none at all;
and MIG instances of cards of 80 GB, alone or with slices of single GPUs or of a pool.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

LABEL = "clearml-injector/fraction"
PREFIX = "clearml-injector/"
LIBRARY_PATH = "/usr/local/vgpu"
LIBRARY = f"{LIBRARY_PATH}/libvgpu.so"
CACHE_PATH = "/usr/local/vgpu-cache"
REMOVED = re.compile(
    "NVIDIA_GPU_MEMORY_.*|CUDA_MPS_.*|NVIDIA_(IMEX_CHANNELS|NVSWITCH|GDS|GDRCOPY|MOFED|MIG_.*)"
    "|DOCKER_RESOURCE_GPU"
)
RESERVED = re.compile(
    "NVIDIA_VISIBLE_DEVICES|CUDA_DEVICE_MEMORY_LIMIT.*|CUDA_DEVICE_SM_LIMIT.*"
    "|CUDA_DEVICE_MEMORY_SHARED_CACHE|CUDA_REDIRECT|CUDA_DISABLE_CONTROL|CUDA_OVERSUBSCRIBE"
    "|GPU_CORE_UTILIZATION_POLICY|ACTIVE_OOM_KILLER|LIBCUDA_LOG_LEVEL|LD_AUDIT"
    f"|{REMOVED.pattern}"
)
OTHER_GPU = re.compile(
    r"nvidia\.com/.*|clear\.ml/fraction-.*|deviceclass\.resource\.kubernetes\.io/.*|amd\.com/gpu"
)
PROTECTED = (
    "/dev",
    "/etc/nri",
    "/opt/nri",
    "/tmp/nvidia-mps",  # noqa: S108 a path of a node, not of this machine
    "/proc",
    "/etc/cdi",
    "/etc/containerd",
    "/etc/crio",
    "/etc/kubernetes",
    "/etc/nvidia-container-runtime",
    "/etc/rancher",
    "/run/cdi",
    "/run/containerd",
    "/run/cri-dockerd.sock",
    "/run/crio",
    "/run/docker",
    "/run/docker.sock",
    "/run/dockershim.sock",
    "/run/k0s",
    "/run/nri",
    "/run/nvidia",
    "/sys",
    "/usr/local/nvidia",
    "/usr/local/vgpu",
    "/var/lib/clearml-injector",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/k0s",
    "/var/lib/kubelet",
    "/var/lib/rancher",
    "/var/snap/microk8s",
)
DEVICE_ANNOTATION = re.compile(
    r"((nvidia\.)?cdi\.k8s\.io|cdi\.nri\.io|(cdi-)?devices\.(nri\.io|noderesource\.dev)"
    r"|mounts\.(nri\.io|noderesource\.dev)|devices\.(gke|crio)\.io|io\.kubernetes\.cri-o\.Devices)(/.*)?"
    r"|nvidia\.com/container\..*|gpu-fractioning\..*"
)
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
FILLED_IN = {
    "imagePullPolicy",
    "name",
    "resources",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeMounts",
}
"""Fields of our init container that the API server and LimitRanges may fill in."""


CARDS = {"NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"}
"""Models of the nodes that are divided into several profiles."""
SINGLE = "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb"
"""Model of the nodes of which each instance is called nvidia.com/gpu."""
INSTANCES = {
    "nvidia.com/mig-1g.10gb": (1, CARDS),
    "nvidia.com/mig-2g.20gb": (2, CARDS),
    "nvidia.com/mig-3g.40gb": (4, CARDS),
    "nvidia.com/mig-7g.80gb": (8, CARDS),
    "nvidia.com/gpu": (4, {SINGLE}),
}
"""Eighths of a card that an instance is, and the models on which it is."""


@dataclass(frozen=True)
class Expected:
    """What a policy gives."""

    fractions: dict[str, int]
    limiter: bool = True
    """Whether hami-core limits; else nothing does."""
    reserve_mib: int = 0
    assumed_mib: int | None = None


def faults(pod: Object, expected: Expected) -> Iterator[str]:
    """Yield everything by which a stored pod could have more than its share."""
    spec = pod["spec"]
    label = pod["metadata"]["labels"][LABEL]
    slices = expected.fractions.get(label)
    if slices is None:
        yield f"label {label!r}"
        return
    said = pod["metadata"].get("annotations") or {}
    inits, regular = spec.get("initContainers") or [], spec["containers"]
    yield from _twins([*inits, *regular])
    index = said.get(PREFIX + "gpu-index", "")
    amounts = {f"nvidia.com/gpu-{one}": max(1, min(8, slices)) for one in index.split(",")}
    if len(amounts) != max(1, slices // 8) or said.get(PREFIX + "slices") != str(slices):
        yield f"index {index!r}, slices {said.get(PREFIX + 'slices')!r} of {slices}"
    chosen = said.get(PREFIX + "gpu-container")
    gpu = [one for one in inits if _gpu_amounts(one)] + [one for one in regular if one["name"] == chosen]
    others = [one for one in [*inits, *regular] if one not in gpu]
    if not gpu or gpu[-1]["name"] != chosen or gpu[-1] in inits:
        yield f"no container {chosen!r}"
        return
    yield from _amounts(gpu, amounts)
    yield from (f"{one['name']} asks for a GPU, as {chosen} does" for one in others if _gpu_amounts(one))
    yield from _ways_around(pod, spec, gpu, [*inits, *regular])
    for one in others:
        if one.get("env") is None or _values(one, "NVIDIA_VISIBLE_DEVICES") != ["void"]:
            yield f"{one['name']} sees {_values(one, 'NVIDIA_VISIBLE_DEVICES')}"
    if slices < 8:
        yield from _memory(spec, said, slices, expected)
        if expected.limiter:
            yield from _limiter(spec, gpu, said.get(PREFIX + "memory-mib"))


def faults_of_either(pod: Object, expected: Expected) -> Iterator[str]:
    """Yield the same of a pod that may have a MIG instance instead."""
    said = pod["metadata"].get("annotations") or {}
    if PREFIX + "gpu-index" in said:
        yield from faults(pod, expected)
        return
    spec, asked = pod["spec"], expected.fractions.get(pod["metadata"]["labels"][LABEL])
    if asked is None:
        yield f"label {pod['metadata']['labels'][LABEL]!r}"
        return
    inits, regular = spec.get("initContainers") or [], spec["containers"]
    yield from _twins([*inits, *regular])
    gpu = [one for one in inits if _gpu_amounts(one)]
    gpu += [one for one in regular if one["name"] == said.get(PREFIX + "gpu-container")]
    if not gpu or gpu[-1] in inits:
        yield f"no container {said.get(PREFIX + 'gpu-container')!r}"
        return
    if PREFIX + "memory-mib" in said:
        yield from _amounts(gpu, {"nvidia.com/gpu": asked})
        yield from _memory(spec, said, asked, expected)
    else:
        yield from _instance(spec, said, gpu, asked)
    for one in [each for each in [*inits, *regular] if each not in gpu]:
        if _gpu_amounts(one) or _values(one, "NVIDIA_VISIBLE_DEVICES") != ["void"]:
            yield f"{one['name']} asks for {_gpu_amounts(one)} or sees GPUs"
    yield from _ways_around(pod, spec, gpu, [*inits, *regular])


def _instance(spec: Object, said: Object, gpu: list[Object], asked: int) -> Iterator[str]:
    resource = next(iter(_gpu_amounts(gpu[-1])), "")
    eighths, models = INSTANCES.get(resource, (0, CARDS))
    yield from _amounts(gpu, {resource: 1})
    if said.get(PREFIX + "slices") != str(eighths) or eighths < asked:
        yield f"{said.get(PREFIX + 'slices')} eighths of {resource} for {asked}"
    terms = _terms(spec)
    bound = [[set(values) for values in _required(term, "nvidia.com/gpu.product")] for term in terms]
    if not terms or not all(any(values and values <= models for values in each) for each in bound):
        yield f"{resource} is bound to {bound}"


def _terms(spec: Object) -> list[Object]:
    """Terms of the required node affinity that can match a node."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    every = required.get("nodeSelectorTerms") or []
    return [term for term in every if term.get("matchExpressions") or term.get("matchFields")]


def _required(term: Object, label: str) -> list[list[str]]:
    """Values that a term has a label be in, by requirement."""
    return [
        each.get("values") or []
        for each in term.get("matchExpressions") or []
        if each.get("key") == label and each.get("operator") == "In"
    ]


def _twins(every: list[Object]) -> Iterator[str]:
    names = Counter(one["name"] for one in every)
    yield from (f"two containers named {name!r}" for name, count in names.items() if count > 1)


def _amounts(gpu: list[Object], amounts: dict[str, int]) -> Iterator[str]:
    for one in gpu:
        if any(_by_field(one, field) != amounts for field in ("limits", "requests")):
            yield f"{one['name']} asks for {_by_field(one, 'limits')} and {_by_field(one, 'requests')}"
        if one is not gpu[-1] and one.get("restartPolicy") == "Always":
            yield f"sidecar {one['name']} holds a GPU"


def _gpu_amounts(container: Object) -> dict[str, int]:
    return {**_by_field(container, "limits"), **_by_field(container, "requests")}


def _by_field(container: Object, field: str) -> dict[str, int]:
    amounts = (container.get("resources") or {}).get(field) or {}
    return {
        name: int(amount) if str(amount).isdigit() else -1
        for name, amount in amounts.items()
        if OTHER_GPU.fullmatch(name) and str(amount) != "0"
    }


def _values(container: Object, name: str) -> list[str | None]:
    return [
        None if each.get("valueFrom") else each.get("value", "")
        for each in container.get("env") or []
        if each["name"] == name
    ]


def _ways_around(pod: Object, spec: Object, gpu: list[Object], every: list[Object]) -> Iterator[str]:
    for name in pod["metadata"].get("annotations") or {}:
        if DEVICE_ANNOTATION.fullmatch(name) or name in ("gpu-fraction", "gpu-memory"):
            yield f"annotation {name}"
    if spec.get("hostPID") or spec.get("hostIPC") or spec.get("resourceClaims"):
        yield "hostPID, hostIPC or resourceClaims"
    for volume in spec.get("volumes") or []:
        path = (volume.get("hostPath") or {}).get("path")
        if path is not None and any(_overlap(_normal(path), place) for place in PROTECTED):
            yield f"hostPath {path}"
    yield from _rights(gpu)
    for one in every:
        for mount in one.get("volumeMounts") or []:
            path = _normal(mount["mountPath"])
            if _below(path, "/run/nvidia-container-devices"):
                yield f"{one['name']} mounts {path}"


def _rights(gpu: list[Object]) -> Iterator[str]:
    for one in gpu:
        context = one.get("securityContext") or {}
        added = {
            str(each).upper().removeprefix("CAP_")
            for each in (context.get("capabilities") or {}).get("add") or []
        }
        if context.get("privileged") or added & {"ALL", "SYS_ADMIN"}:
            yield f"{one['name']} is privileged or has {added}"


def _memory(spec: Object, said: Object, slices: int, expected: Expected) -> Iterator[str]:
    mib = said.get(PREFIX + "memory-mib", "")
    terms = _terms(spec)
    if expected.assumed_mib is not None and mib == _share(str(expected.assumed_mib), slices, expected):
        return
    if not terms:
        yield "no node affinity binds the memory"
    for term in terms:
        bound = _required(term, "nvidia.com/gpu.memory")
        shares = [{_share(value, slices, expected) for value in values} for values in bound]
        if {mib} not in shares:
            yield f"memory {mib!r} is bound by {bound}"


def _share(value: str, slices: int, expected: Expected) -> str | None:
    is_number = value.isdigit() and len(value) < 10
    return str(int(value) * slices // 8 - expected.reserve_mib) if is_number else None


def _limiter(spec: Object, gpu: list[Object], mib: str | None) -> Iterator[str]:
    libraries = set()
    for one in gpu:
        preload = _values(one, "LD_PRELOAD")
        if len(preload) != 1 or re.split("[: ]", preload[0] or "")[0] != LIBRARY:
            yield f"{one['name']} preloads {preload}"
        wanted = {
            "CUDA_DEVICE_MEMORY_LIMIT_0": f"{mib}m",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{CACHE_PATH}/{one['name']}.cache",
            "LIBCUDA_LOG_LEVEL": "1",
        }
        yield from (
            f"{one['name']} has {name}={_values(one, name)}"
            for name in wanted
            if _values(one, name) != [wanted[name]]
        )
        for each in one.get("env") or []:
            if RESERVED.fullmatch(each["name"]) and each["name"] not in wanted:
                yield f"{one['name']} keeps {each['name']}"
        if any(_normal(mount["mountPath"]) == "/overrideEnv" for mount in one.get("volumeMounts") or []):
            yield f"{one['name']} mounts /overrideEnv"
        below = [
            mount
            for mount in one.get("volumeMounts") or []
            if _below(_normal(mount["mountPath"]), LIBRARY_PATH)
        ]
        cache = [
            mount
            for mount in one.get("volumeMounts") or []
            if _below(_normal(mount["mountPath"]), CACHE_PATH)
        ]
        if (
            len(below) != 1
            or below[0]["mountPath"] != LIBRARY_PATH
            or not below[0].get("readOnly")
            or _odd_mount(below[0])
        ):
            yield f"{one['name']} mounts the library as {below}"
            continue
        if len(cache) != 1 or cache[0].get("readOnly") or _odd_mount(cache[0]):
            yield f"{one['name']} mounts the cache as {cache}"
            continue
        libraries.add(below[0]["name"])
        for name, size in ((below[0]["name"], "32Mi"), (cache[0]["name"], "8Mi")):
            volumes = [volume for volume in spec.get("volumes") or [] if volume.get("name") == name]
            sources = [
                {key: value for key, value in volume.items() if key != "name" and value is not None}
                for volume in volumes
            ]
            if sources != [{"emptyDir": {"sizeLimit": size}}]:
                yield f"volume {name} is {sources}"
    yield from (fault for library in libraries for fault in _library(spec, library, gpu))


def _library(spec: Object, library: str, gpu: list[Object]) -> Iterator[str]:
    """Only our init container writes the library, before the first that loads it."""
    seen = False
    for one in [*(spec.get("initContainers") or []), *spec["containers"]]:
        if one in gpu:
            if not seen:
                yield f"{one['name']} starts before the library is there"
            continue
        mounts = [mount for mount in one.get("volumeMounts") or [] if mount.get("name") == library]
        if any(not mount.get("readOnly") for mount in mounts):
            odd = list(_not_ours(one, library))
            yield from (f"{one['name']} writes the library: {why}" for why in odd)
            seen = seen or not odd


def _not_ours(container: Object, library: str) -> Iterator[str]:
    for field, value in container.items():
        if field in OURS:
            if _said(value) != OURS[field]:
                yield f"{field} {value!r}"
        elif field not in FILLED_IN and value:
            yield f"{field} {value!r}"
    yield from (f"no {field}" for field in OURS if field not in container)
    for mount in container.get("volumeMounts") or []:
        path = _normal(mount["mountPath"])
        is_library = mount["name"] == library and path == LIBRARY_PATH and not _odd_mount(mount)
        if not is_library and not (_below(path, "/run/secrets") and mount.get("readOnly")):
            yield f"mount {mount}"


def _said(value: Any) -> Any:
    """Leave out what says nothing: what is empty, and rights that are not taken."""
    if isinstance(value, dict):
        return {
            key: _said(each)
            for key, each in value.items()
            if each not in (None, [], {}, "") and (key, each) != ("privileged", False)
        }
    return [_said(each) for each in value] if isinstance(value, list) else value


def _odd_mount(mount: Object) -> bool:
    return any(mount.get(key) for key in ("subPath", "subPathExpr", "mountPropagation"))


def _normal(path: str) -> str:
    normal = posixpath.normpath("/" + path.lstrip("/"))
    return normal.removeprefix("/var") if _below(normal, "/var/run") else normal


def _below(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def _overlap(path: str, place: str) -> bool:
    return _below(path, place) or _below(place, path)
