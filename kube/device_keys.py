"""Keys by which a container gets devices or another limit than its share, and what is done with each.

This is the only list. The webhook reads it; `make chart` writes the expressions of the second lock and
docs/reference/device-keys.md from it. A test in tests/programs fails if NVIDIA's own modules read a variable
or an annotation without an entry here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

Decision = Literal["removed", "removed-from-gpu-containers", "kept", "denied", "denied-to-every-pod"]
"""`removed` is from every container. `denied-to-every-pod` is by the second lock, also without the label."""


class DeviceKey(NamedTuple):
    """One key; a name that ends in a star is the beginning of names."""

    name: str
    decision: Decision
    effect: str
    """What reads it, and what it does."""


VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
_MPS = "CUDA, to reach an MPS server and to change its limits"
_DEVICES = "NVIDIA's container runtime: further device files"
_HAMI_CORE = "HAMi-core: another limit, or none"
_DAEMONS = "NVIDIA's own programs as settings, never from a pod's container"
ENVIRONMENT = (
    DeviceKey(VISIBLE_DEVICES, "removed-from-gpu-containers", "NVIDIA's container runtime: GPUs by name"),
    DeviceKey("NVIDIA_GPU_MEMORY_*", "removed", "NVIDIA's hook and MPS: another memory limit"),
    DeviceKey("CUDA_MPS_*", "removed", _MPS),
    DeviceKey("NVIDIA_IMEX_CHANNELS", "removed", _DEVICES),
    DeviceKey("NVIDIA_NVSWITCH", "removed", _DEVICES),
    DeviceKey("NVIDIA_GDS", "removed", _DEVICES),
    DeviceKey("NVIDIA_GDRCOPY", "removed", _DEVICES),
    DeviceKey("NVIDIA_MOFED", "removed", _DEVICES),
    DeviceKey("NVIDIA_MIG_*", "removed", _DEVICES),
    DeviceKey("DOCKER_RESOURCE_GPU", "removed", "NVIDIA's container runtime: GPUs, for Swarm"),
    DeviceKey("CUDA_DEVICE_MEMORY_LIMIT*", "removed-from-gpu-containers", _HAMI_CORE),
    DeviceKey("CUDA_DEVICE_SM_LIMIT*", "removed-from-gpu-containers", _HAMI_CORE),
    DeviceKey("CUDA_DEVICE_MEMORY_SHARED_CACHE", "removed-from-gpu-containers", _HAMI_CORE),
    DeviceKey(
        "CUDA_VISIBLE_DEVICES",
        "removed-from-gpu-containers",
        "CUDA: which of the container's GPUs it sees, counted from 0 in the container",
    ),
    DeviceKey("CUDA_REDIRECT", "removed-from-gpu-containers", _HAMI_CORE),
    DeviceKey("CUDA_DISABLE_CONTROL", "removed-from-gpu-containers", _HAMI_CORE),
    DeviceKey("CUDA_OVERSUBSCRIBE", "removed-from-gpu-containers", _HAMI_CORE),
    DeviceKey("GPU_CORE_UTILIZATION_POLICY", "removed-from-gpu-containers", _HAMI_CORE),
    DeviceKey("ACTIVE_OOM_KILLER", "removed-from-gpu-containers", _HAMI_CORE),
    DeviceKey("LIBCUDA_LOG_LEVEL", "removed-from-gpu-containers", "HAMi-core: how much it logs"),
    DeviceKey("LD_AUDIT", "removed-from-gpu-containers", "the loader: libraries before those in LD_PRELOAD"),
    DeviceKey("LD_PRELOAD", "kept", "the loader; the limiter's library is put before the pod's own"),
    DeviceKey("LD_LIBRARY_PATH", "kept", "the loader; it cannot replace a library that is preloaded by path"),
    DeviceKey("NVIDIA_DRIVER_CAPABILITIES", "kept", "NVIDIA's container runtime: libraries, no devices"),
    DeviceKey("NVIDIA_REQUIRE_*", "kept", "NVIDIA's container runtime: when not to start"),
    DeviceKey("NVIDIA_DISABLE_REQUIRE", "kept", "NVIDIA's container runtime: the same"),
    DeviceKey("CUDA_VERSION", "kept", "NVIDIA's container runtime: whether an image is an old one"),
    DeviceKey("NVIDIA_CDI_*", "kept", _DAEMONS),
    DeviceKey("NVIDIA_CONTAINER_*", "kept", _DAEMONS),
    DeviceKey("NVIDIA_CTK_*", "kept", _DAEMONS),
    DeviceKey("NVIDIA_DEV_ROOT", "kept", _DAEMONS),
    DeviceKey("NVIDIA_DRA_*", "kept", _DAEMONS),
    DeviceKey("NVIDIA_DRIVER_ROOT", "kept", _DAEMONS),
    DeviceKey("NVIDIA_FABRICMANAGER_*", "kept", _DAEMONS),
    DeviceKey("NVIDIA_RUNTIME_*", "kept", _DAEMONS),
)
"""Environment variables of containers."""

_CDI = "container runtimes and NVIDIA's: devices by their CDI names"
_NRI = "plugins of container runtimes (NRI): devices"
_NRI_MOUNTS = "plugins of container runtimes (NRI): mounts, which can select devices"
_KAI = "KAI's node agent (fractiond): GPUs, and another memory limit"
ANNOTATIONS = (
    DeviceKey("cdi.k8s.io", "denied-to-every-pod", _CDI),
    DeviceKey("nvidia.cdi.k8s.io", "denied-to-every-pod", _CDI),
    DeviceKey("cdi.nri.io", "denied-to-every-pod", _NRI),
    DeviceKey("devices.nri.io", "denied-to-every-pod", _NRI),
    DeviceKey("cdi-devices.nri.io", "denied-to-every-pod", _NRI),
    DeviceKey("devices.noderesource.dev", "denied-to-every-pod", _NRI),
    DeviceKey("cdi-devices.noderesource.dev", "denied-to-every-pod", _NRI),
    DeviceKey("mounts.nri.io", "denied", _NRI_MOUNTS),
    DeviceKey("mounts.noderesource.dev", "denied", _NRI_MOUNTS),
    DeviceKey("devices.gke.io", "denied", "GKE's runtime: devices"),
    DeviceKey("devices.crio.io", "denied", "CRI-O: devices"),
    DeviceKey("io.kubernetes.cri-o.Devices", "denied", "CRI-O: devices"),
    DeviceKey("nvidia.com/container.*", "denied", _KAI),
    DeviceKey("gpu-fractioning.*", "denied", _KAI),
)
"""Annotations of pods, bare or with a suffix after a slash, such as /pod or /container.NAME. Pods without the
label keep those that other software needs."""

DEVICE_LIST_MOUNT = "/run/nvidia-container-devices"
"""Beginning of mount paths, with or without a slash behind it, from which NVIDIA's container runtime takes
the names of devices if it is set to volume mounts."""

_SOCKET = "sockets of container runtimes and of their plugins"
_PLUGINS = "the kubelet's sockets of device plugins"
HOST_PATHS = {
    "/dev": "device files",
    "/proc": "the node's files, by /proc/1/root",
    "/etc/cdi": "CDI specifications",
    "/etc/nri": "settings of runtimes' plugins (NRI)",
    "/opt/nri": "runtimes' plugins (NRI): the runtime runs as root what is there",
    "/run/cdi": "CDI specifications",
    "/run/nvidia": "NVIDIA's driver",
    "/run/containerd": _SOCKET,
    "/run/crio": _SOCKET,
    "/run/docker": _SOCKET,
    "/run/docker.sock": _SOCKET,
    "/run/dockershim.sock": _SOCKET,
    "/run/k0s": _SOCKET,
    "/run/k3s/containerd": _SOCKET,
    "/run/nri": _SOCKET,
    "/usr/local/vgpu": "files of the limiter",
    "/var/lib/kubelet/device-plugins": _PLUGINS,
    "/var/lib/k0s/kubelet/device-plugins": _PLUGINS,
    "/var/lib/clearml-injector": "files of the node agent",
    "/var/snap/microk8s/common/run": _SOCKET,
    "/var/snap/microk8s/common/var/lib/kubelet/device-plugins": _PLUGINS,
}
"""Paths of a node that no policy can allow in a labelled pod, and what is there. /run includes /var/run,
which links to it."""


def names_of(keys: tuple[DeviceKey, ...], *decisions: Decision) -> list[str]:
    """Return the names with one of the decisions; a star at the end stands for any characters."""
    return [key.name for key in keys if key.decision in decisions]


class _Names:
    """A table's names, and those that stand for all names with a beginning."""

    def __init__(self, names: list[str]) -> None:
        self.whole = frozenset(names)
        self.starts = tuple([name[:-1] for name in names if name.endswith("*")])

    def among(self, found: Collection[str]) -> set[str]:
        starts = self.starts
        return {name for name in found if name.startswith(starts)}.union(self.whole.intersection(found))


_RESERVED = _Names(names_of(ENVIRONMENT, "removed", "removed-from-gpu-containers"))
_REMOVED = _Names(names_of(ENVIRONMENT, "removed"))
_DENIED = names_of(ANNOTATIONS, "denied", "denied-to-every-pod")
_INJECTING = _Names([*_DENIED, *[f"{name}/*" for name in _DENIED]])


def reserved(variables: Collection[str]) -> set[str]:
    """Return the variables of which every copy is removed from a GPU container before ours are set."""
    return _RESERVED.among(variables)


def removed(variables: Collection[str]) -> set[str]:
    """Return the variables of which every copy is removed from containers without a share too."""
    return _REMOVED.among(variables)


def injecting(annotations: Collection[str]) -> set[str]:
    """Return the annotations by which a labelled pod could get devices in addition to its share."""
    return _INJECTING.among(annotations)
