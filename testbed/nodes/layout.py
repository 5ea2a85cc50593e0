"""Where a node keeps its container runtime: in the testbed's own places, or as k3s has it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Places on a node.

    Attributes:
        socket: Of containerd.
        state: Containerd's folder in memory.
        home: Of the distribution, which outlives a reboot; empty where the node's folder has everything.
        configuration: Of containerd; empty where it lies in the node's folder.
        root: Containerd's folder on the disk; empty likewise.
        has_cdi_settings: Whether the configuration names folders of CDI specifications and turns CDI on.
        finds_toolkit: Whether the configuration has the runtime `nvidia` only if NVIDIA's toolkit is there
            when containerd starts.
    """

    socket: str
    state: str
    home: str = ""
    configuration: str = ""
    root: str = ""
    has_cdi_settings: bool = True
    finds_toolkit: bool = False


PLAIN = Layout("/run/containerd.sock", "/run/containerd")
K3S = Layout(
    socket="/run/k3s/containerd/containerd.sock",
    state="/run/k3s/containerd",
    home="/var/lib/rancher/k3s",
    configuration="/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    root="/var/lib/rancher/k3s/agent/containerd",
    has_cdi_settings=False,
    finds_toolkit=True,
)
"""By k3s' source and documentation: it writes the file at each start, and looks for runtimes then."""
