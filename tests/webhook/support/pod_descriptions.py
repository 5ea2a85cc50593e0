"""What an injected pod must look like, said a second time: slowly, on plain dictionaries, by the documents.

Knows nothing of the product's code. Per-gpu mode, limiter hami-core, the built-in policy.
"""

import copy
import hashlib
import re

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
OURS = ("injected", "slices", "gpu-index", "gpu-container", "memory-mib", "reservation")
LIBRARY = "/usr/local/vgpu/libvgpu.so"


def describe(pod, *, chosen, gpu_inits, placement, marker):
    """The pod after injection. `placement` is the ledger's answer: index, MiB of the GPU, values, node."""
    pod = copy.deepcopy(pod)
    slices = _slices(pod)
    mib = placement.gpu_mib * slices // 8
    _annotate(pod, chosen, mib, placement, marker)
    spec = pod["spec"]
    everyone = [*(spec.get("initContainers") or []), *spec["containers"]]
    names = _Names(spec, everyone)
    gpu_names = [*gpu_inits, chosen]
    for container in everyone:
        if container["name"] in gpu_names:
            _give_share(container, slices, mib, placement.indices[0], names)
        else:
            _hide(container)
    _bind(spec, placement)
    model = next(container for container in spec["containers"] if container["name"] == chosen)
    spec["volumes"] = [*(spec.get("volumes") or []), *names.volumes]
    spec["initContainers"] = [_limiter(names, model), *(spec.get("initContainers") or [])]
    return pod


def _annotate(pod, chosen, mib, placement, marker):
    annotations = dict(pod["metadata"].get("annotations") or {})
    for name in OURS:
        annotations.pop(f"clearml-injector/{name}", None)
    values = (marker, str(_slices(pod)), str(placement.indices[0]), chosen, str(mib), placement.reservation)
    annotations |= {f"clearml-injector/{name}": value for name, value in zip(OURS, values, strict=True)}
    pod["metadata"]["annotations"] = annotations


def _slices(pod):
    return round(float(pod["metadata"]["labels"]["clearml-injector/fraction"]) * 8)


def _give_share(container, slices, mib, index, names):
    resources = container.get("resources") or {}
    container["resources"] = resources
    for field in ("limits", "requests"):
        amounts = resources.get(field) or {}
        kept = {
            name: amount
            for name, amount in amounts.items()
            if name not in ("nvidia.com/gpu", "nvidia.com/gpu.shared")
            and not name.startswith("clear.ml/fraction-")
        }
        resources[field] = {**kept, f"nvidia.com/gpu-{index}": str(slices)}
    _limit_env(container, mib)
    mounts = [
        {"name": names.library, "mountPath": "/usr/local/vgpu", "readOnly": True},
        {"name": names.cache(container["name"]), "mountPath": "/usr/local/vgpu-cache"},
    ]
    container["volumeMounts"] = [*(container.get("volumeMounts") or []), *mounts]


def _limit_env(container, mib):
    env = container.get("env") or []
    wanted = {
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"/usr/local/vgpu-cache/{container['name']}.cache",
        "LIBCUDA_LOG_LEVEL": "1",
        "CUDA_DEVICE_MEMORY_LIMIT_0": f"{mib}m",
    }
    preloads = [entry for entry in env if entry["name"] == "LD_PRELOAD"]
    joined = _joined(preloads[-1].get("value") or "") if preloads else None
    stands = [name for name in wanted if _stands_once(env, name, wanted[name])]
    after = []
    for entry in env:
        if entry["name"] == "LD_PRELOAD":
            if entry is preloads[-1]:
                after.append(entry if entry.get("value") == joined else {**entry, "value": joined})
        elif not RESERVED.fullmatch(entry["name"]) or entry["name"] in stands:
            after.append(entry)
    after += [{"name": name, "value": value} for name, value in wanted.items() if name not in stands]
    if not preloads:
        after.append({"name": "LD_PRELOAD", "value": LIBRARY})
    container["env"] = after


def _joined(theirs):
    if not theirs:
        return LIBRARY
    return theirs if re.split("[: ]", theirs)[0] == LIBRARY else f"{LIBRARY}:{theirs}"


def _stands_once(env, name, value):
    copies = [entry for entry in env if entry["name"] == name]
    return len(copies) == 1 and copies[0].get("value") == value and copies[0].get("valueFrom") is None


def _hide(container):
    env = [entry for entry in container.get("env") or [] if not REMOVED.fullmatch(entry["name"])]
    if _stands_once(env, "NVIDIA_VISIBLE_DEVICES", "void"):
        container["env"] = env
        return
    others = [entry for entry in env if entry["name"] != "NVIDIA_VISIBLE_DEVICES"]
    container["env"] = [*others, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def _bind(spec, placement):
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    expression = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": list(placement.memory_values)}
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    required = node_affinity.get(name)
    if required is None:
        required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    else:
        for term in required["nodeSelectorTerms"]:
            if term.get("matchExpressions") or term.get("matchFields"):
                term["matchExpressions"] = [*(term.get("matchExpressions") or []), expression]
    node_affinity[name] = required
    if placement.node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [placement.node]}
        wish = {"weight": 100, "preference": {"matchFields": [field]}}
        name = "preferredDuringSchedulingIgnoredDuringExecution"
        node_affinity[name] = [*(node_affinity.get(name) or []), wish]
    affinity["nodeAffinity"] = node_affinity
    spec["affinity"] = affinity


def _number(quantity):
    number, unit = re.fullmatch("([0-9.]+)([A-Za-z]*)", str(quantity)).groups()
    return float(number) * {"m": 0.001, "": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}[unit]


def _limiter(names, model):
    resources = model.get("resources") or {}
    copied = {}
    for field in ("limits", "requests"):
        asked, most = resources.get(field) or {}, {"cpu": "100m", "memory": "128Mi"}
        amounts = {k: min(asked[k], most[k], key=_number) for k in ("cpu", "memory") if k in asked}
        if amounts:
            copied[field] = amounts
    return {
        "name": names.free("gpu-limiter"),
        "image": "docker.io/projecthami/hamicore:v2.10.0",
        "command": ["sh", "-c", "cp /k8s-vgpu/lib/nvidia/libvgpu.so.* /usr/local/vgpu/libvgpu.so"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "volumeMounts": [{"name": names.library, "mountPath": "/usr/local/vgpu"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsUser": 65534,
        },
        "imagePullPolicy": "IfNotPresent",
        **({"resources": copied} if copied else {}),
    }


class _Names:
    """Free names, in the order in which they are needed: each of at most 63 characters."""

    def __init__(self, spec, everyone):
        self._taken = {volume["name"] for volume in spec.get("volumes") or []}
        for container in everyone:
            self._taken |= {container["name"], *(m["name"] for m in container.get("volumeMounts") or [])}
        self.volumes = []
        self._library = None

    @property
    def library(self):
        if self._library is None:
            self._library = self._volume("gpu-limiter-library", "32Mi")
        return self._library

    def cache(self, container):
        return self._volume(f"gpu-limiter-cache-{container}", "8Mi")

    def _volume(self, wanted, size):
        self.volumes.append({"name": self.free(wanted), "emptyDir": {"sizeLimit": size}})
        return self.volumes[-1]["name"]

    def free(self, wanted):
        for number in range(1, 100):
            suffix = f"-{number}" if number > 1 else ""
            name = wanted + suffix
            if len(name) > 63:
                digest = hashlib.sha256(wanted.encode()).hexdigest()[:8]
                name = wanted[: 63 - len(suffix) - 9] + "-" + digest + suffix
            if name not in self._taken:
                self._taken.add(name)
                return name
        raise AssertionError(wanted)
