"""A card's device nodes, for the ways of handing GPUs over in which no CDI specification lists them.

A container whose device nodes are not in its own specification loses them when the control groups are written
again, as by `systemctl daemon-reload`: programs in it then get "Failed to initialize NVML: Unknown Error".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.gpu import Gpu

CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device nodes that belong to no card; each is given where the node has it."""


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """One device node."""

    container_path: str
    host_path: str


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """Where the driver keeps its device nodes.

    Args:
        root: of the driver, as this process sees it.
        host_root: the same, as the node has it.
    """

    root: Path
    host_root: Path

    def of(self, gpu: Gpu) -> list[DeviceNode]:
        """Return the nodes of a card and of the driver; none where the card's own is not there."""
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
