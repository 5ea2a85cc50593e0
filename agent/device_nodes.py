"""A card's device nodes, for the device list strategies without a CDI specification.

A container loses device nodes that are not in its own specification when control groups are written again,
such as by `systemctl daemon-reload`: its programs then get "Failed to initialize NVML: Unknown Error".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.gpu import Gpu

CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device nodes that belong to no card; a container gets those that exist on the node."""


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """One device file of a card or of the driver, as the kubelet gives it to a container."""

    container_path: str
    host_path: str


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """Finds the driver's device nodes.

    Args:
        root: root of the driver, for this process.
        host_root: the same folder's path on the node.
    """

    root: Path
    host_root: Path

    def of(self, gpu: Gpu) -> list[DeviceNode]:
        """Return the device nodes of a card and of the driver; none if the card's own does not exist."""
        card = f"nvidia{gpu.minor}"
        found = self._found((card, *CONTROL))
        return found if found and found[0].container_path == f"/dev/{card}" else []

    def _found(self, names: tuple[str, ...]) -> list[DeviceNode]:
        folder = self.root / "dev"
        return [
            DeviceNode(f"/dev/{name}", str(self.host_root / "dev" / name))
            for name in names
            if (folder / name).exists()
        ]
