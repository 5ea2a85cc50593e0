"""NVIDIA's own programs, built from their Go modules once, into a cache folder.

`python -m testbed.nvidia.parts` builds what is missing and prints the folder. The versions stand in
`toolkit/go.mod`, `plugin/go.mod` and `dra/go.mod`.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed import building
from testbed.binaries import go_missing
from testbed.building import Make, Say
from testbed.nvidia import library
from testbed.nvidia.driver_root import DriverRoot

MODULES = Path(__file__).parent
TOOLKIT = "github.com/NVIDIA/nvidia-container-toolkit/cmd/"
PLUGIN = "github.com/NVIDIA/k8s-device-plugin/cmd/"
PROGRAMS = {
    "nvidia-ctk": ("toolkit", TOOLKIT),
    "nvidia-cdi-hook": ("toolkit", TOOLKIT),
    "nvidia-device-plugin": ("plugin", PLUGIN),
    "gpu-feature-discovery": ("plugin", PLUGIN),
    "gpu-kubelet-plugin": ("dra", "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/"),
}
"""Module's folder and path of each command."""


@dataclass(frozen=True, slots=True)
class NvidiaParts:
    """Where the programs lie.

    Attributes:
        folder: Of all of them.
    """

    folder: Path

    @property
    def ctk(self) -> Path:
        """Writes CDI specifications."""
        return self.folder / "nvidia-ctk"

    def generate_cards(self, driver: DriverRoot, vendor: str, output: Path, hook: Path) -> None:
        """Have the toolkit write a CDI specification with a device for each card, by uuid."""
        self._generate(driver, output, hook, "--mode=nvml", f"--vendor={vendor}")

    def generate_management(self, driver: DriverRoot, output: Path, hook: Path) -> None:
        """Have the toolkit write what it does as a part of the GPU operator: one device with all cards."""
        self._generate(driver, output, hook, "--mode=management", "--vendor=management.nvidia.com")

    def _generate(self, driver: DriverRoot, output: Path, hook: Path, *options: str) -> None:
        root = (
            f"--driver-root={driver.folder}",
            f"--dev-root={driver.folder}",
            f"--nvidia-cdi-hook-path={hook}",
        )
        names = "--device-name-strategy=uuid", f"--output={output}"
        command = [str(self.ctk), "cdi", "generate", *root, *names, *options]
        building.run(*command, **driver.environment)


def why_not() -> str | None:
    """Say why they cannot be had here; None if they can."""
    if not building.missing(cache_folder(), _makers()):
        return library.why_not()
    if shutil.which("gcc") is None:
        return "NVIDIA's programs are compiled with cgo, and there is no `gcc` on PATH"
    return go_missing()


def cache_folder() -> Path:
    """Where the programs of exactly these versions belong."""
    modules = sorted({module for module, _ in PROGRAMS.values()})
    files = [MODULES / module / file for module in modules for file in ("go.mod", "go.sum")]
    return building.folder_of("nvidia", repr(PROGRAMS), *files)


def build(say: Say) -> NvidiaParts:
    """Build what the cache lacks, one line to `say` for each program.

    Raises:
        BuildError: Go failed.
    """
    return NvidiaParts(building.make_missing("nvidia", cache_folder(), _makers(), say))


def _makers() -> Mapping[str, Make]:
    return dict.fromkeys(PROGRAMS, _make)


def _make(target: Path) -> None:
    module, path = PROGRAMS[target.name]
    flags = ("-ldflags", "-s -w", "-o", str(target))
    building.go("build", *flags, path + target.name, folder=MODULES / module, CGO_ENABLED="1")


if __name__ == "__main__":
    building.command(why_not, lambda say: build(say).folder)
