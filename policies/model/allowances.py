"""Risky features that labelled pods may use only if a policy allows them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from pydantic.alias_generators import to_camel

HostPath = Literal[
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/etc/containerd",
    "/etc/crio",
    "/etc/rancher",
    "/etc/nvidia-container-runtime",
    "/run/cri-dockerd.sock",
    "/usr/local/nvidia",
    "/tmp/nvidia-mps",  # noqa: S108 a path of a node, not of this machine
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
"""Normalised paths of a node that lead to GPUs outside the share, and that some legitimate pods need:
credentials, settings, sockets and files of runtimes and drivers, MPS servers, the kernel's own tree, devices
other than GPUs."""
HOST_PATHS: tuple[HostPath, ...] = get_args(HostPath)

Capability = Literal["SYS_ADMIN", "ALL"]
"""Linux capabilities that let a container create its own access to devices, without the prefix CAP_."""
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)

CLAIM_PREFIX = "not-a-gpu-"
"""Prefix of the names of a labelled pod's claims. A review shows only the name of a claim, not its class. So
the chart's second lock requires that the name contains the class."""
DEVICE_CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that requests a device of a class without a claim."""

OVERRIDE_ENV = "/overrideEnv"
"""A file from which HAMi-core reads settings that override its environment."""


def claim_name(device_class: str) -> str:
    """Return the name of a labelled pod's claim of a DeviceClass; in a DNS label, dots become hyphens."""
    return CLAIM_PREFIX + device_class.replace(".", "-")


@dataclass(frozen=True, slots=True)
class Allowances:
    """What one policy allows although it is denied by default."""

    host_paths: frozenset[HostPath] = frozenset()
    capabilities: frozenset[Capability] = frozenset()
    override_env: bool = False
    resources: frozenset[str] = frozenset()
    """Resources in nvidia.com/ that give no access to a GPU."""
    host_ipc: bool = False
    device_classes: frozenset[str] = frozenset()
    """DeviceClasses that contain no GPU."""

    @property
    def claims(self) -> frozenset[str]:
        """Names of the claims of these classes in a pod."""
        return frozenset(claim_name(device_class) for device_class in self.device_classes)

    @property
    def harmless_resources(self) -> frozenset[str]:
        """Names of resources that give no access to a GPU, including those of the device classes."""
        return self.resources | {DEVICE_CLASS_RESOURCE + name for name in self.device_classes}

    def beyond(self, base: Allowances) -> list[str]:
        """Return what this allows and `base` does not, in the form of policy keys."""
        more = []
        for field in fields(self):
            mine, others = getattr(self, field.name), getattr(base, field.name)
            key = "allow." + to_camel(field.name).replace("Ipc", "IPC")
            names = ["true"] * (mine and not others) if isinstance(mine, bool) else sorted(mine - others)
            more += [f"{key} {name}" for name in names]
        return more
