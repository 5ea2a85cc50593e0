"""What labelled pods may bring only where the admin says so: the names, and what a policy allows of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

HostPath = Literal[
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/etc/containerd",
    "/etc/crio",
    "/etc/rancher",
    "/etc/nvidia-container-runtime",
    "/run/cri-dockerd.sock",
    "/usr/local/nvidia",
    "/sys",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/containers",
    "/var/lib/k0s",
    "/var/lib/rancher",
    "/var/snap/microk8s",
    "/dev/infiniband",
    "/dev/fuse",
]
"""Places of a node, normalised, that lead to GPUs past the share and that some honest pods need: credentials,
settings, sockets and files of runtimes and drivers, the kernel's own tree, devices other than GPUs."""
HOST_PATHS: tuple[HostPath, ...] = get_args(HostPath)

Capability = Literal["SYS_ADMIN", "ALL"]
"""Linux capabilities with which a container can make its own way to devices, without the CAP_ before them."""
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)

CLAIM_PREFIX = "not-a-gpu-"
"""Begins the names of a labelled pod's claims. The chart's second lock holds such a claim to the class after
which it is called, as a review shows the name of a claim and never what it is of."""
DEVICE_CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""Begins the extended resource that asks for a device of a class without a claim."""

OVERRIDE_ENV = "/overrideEnv"
"""A file from which HAMi-core takes its settings, whatever its environment says."""


def claim_name(device_class: str) -> str:
    """Return what a labelled pod calls its claim of a DeviceClass, in a DNS label: dots become hyphens."""
    return CLAIM_PREFIX + device_class.replace(".", "-")


@dataclass(frozen=True, slots=True)
class Allowances:
    """What one policy allows."""

    host_paths: frozenset[HostPath] = frozenset()
    capabilities: frozenset[Capability] = frozenset()
    override_env: bool = False
    resources: frozenset[str] = frozenset()
    """NVIDIA's resources that are no way to a GPU."""
    host_ipc: bool = False
    device_classes: frozenset[str] = frozenset()
    """DeviceClasses of what is no GPU."""

    @property
    def claims(self) -> frozenset[str]:
        """Names that claims of these classes go by in a pod."""
        return frozenset(claim_name(device_class) for device_class in self.device_classes)

    @property
    def harmless_resources(self) -> frozenset[str]:
        """Names of resources that are no way to a GPU, those of the device classes too."""
        return self.resources | {DEVICE_CLASS_RESOURCE + name for name in self.device_classes}

    def beyond(self, base: Allowances) -> list[str]:
        """Return what this allows and `base` does not, in a policy's own words."""
        lists = (
            ("hostPaths", self.host_paths - base.host_paths),
            ("capabilities", self.capabilities - base.capabilities),
            ("resources", self.resources - base.resources),
            ("deviceClasses", self.device_classes - base.device_classes),
        )
        switches = (
            ("overrideEnv", self.override_env and not base.override_env),
            ("hostIPC", self.host_ipc and not base.host_ipc),
        )
        more = [f"allow.{key} {name}" for key, names in lists for name in sorted(names)]
        return more + [f"allow.{key} true" for key, is_more in switches if is_more]
