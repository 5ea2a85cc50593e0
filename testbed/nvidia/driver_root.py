"""A driver as it lies on a node: a root folder with its libraries, programs and device nodes."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from testbed.nvidia import library
from testbed.nvidia.cards import NvmlNode

CONTROL = {
    "nvidiactl": (195, 255),
    "nvidia-modeset": (195, 254),
    "nvidia-uvm": (510, 0),
    "nvidia-uvm-tools": (510, 1),
}
"""Device nodes that every container with a GPU gets, by major and minor number."""
CARD_MAJOR = 195
LIBRARIES = Path("usr", "lib64")
SHELL = "#!/bin/sh\n"


class DriverRoot:
    """A folder that NVIDIA's programs take for the root of a node with a driver.

    Making device nodes needs root.

    Args:
        folder: Is made, or taken over as a node that boots again does.
        node: The cards, and the version that the names of files follow.
    """

    def __init__(self, folder: Path, node: NvmlNode) -> None:
        self.folder = folder
        self.libraries = folder / LIBRARIES
        (folder / "usr" / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "usr" / "bin" / "nvidia-smi").write_text(SHELL)
        (folder / "usr" / "bin" / "nvidia-smi").chmod(0o755)
        (folder / "dev").mkdir(exist_ok=True)
        self.install(node)

    @property
    def cards(self) -> Path:
        """The file of cards, next to the library."""
        return self.libraries / "cards"

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which a program finds this driver's library and cards."""
        return {"LD_LIBRARY_PATH": str(self.libraries), library.CARDS: str(self.cards)}

    def install(self, node: NvmlNode) -> None:
        """Put the driver of a version there in place of what was there, as an upgrade does."""
        shutil.rmtree(self.libraries, ignore_errors=True)
        self.libraries.mkdir()
        for built in (library.build(), library.build(library.CUDA)):
            name = built.name.removesuffix(".1")
            shutil.copy(built, self.libraries / f"{name}.{node.driver}")
            (self.libraries / built.name).symlink_to(f"{name}.{node.driver}")
        self.write(node)

    def write(self, node: NvmlNode) -> None:
        """Say which cards there are, and make their device nodes."""
        node.write(self.cards)
        for name, numbers in CONTROL.items():
            self._make_device(name, *numbers)
        for card in node.cards:
            self._make_device(f"nvidia{card.minor}", CARD_MAJOR, card.minor)

    def _make_device(self, name: str, major: int, minor: int) -> None:
        if not (self.folder / "dev" / name).exists():
            os.mknod(self.folder / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
