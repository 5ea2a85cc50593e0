"""NVIDIA's own programs, built from their Go modules once, into a cache folder.

`python -m testbed.nvidia.parts` builds what is missing and prints the folder. With `--cached` it builds
nothing, and fails where something is missing. The versions stand in `toolkit/go.mod`, `plugin/go.mod` and
`dra/go.mod`.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.binaries import BuildError, go_missing
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

    @property
    def hook(self) -> Path:
        """Is named by those, and run by a container runtime."""
        return self.folder / "nvidia-cdi-hook"

    @property
    def device_plugin(self) -> Path:
        """Offers `nvidia.com/gpu` to a kubelet."""
        return self.folder / "nvidia-device-plugin"

    @property
    def feature_discovery(self) -> Path:
        """Writes the labels of a node with GPUs."""
        return self.folder / "gpu-feature-discovery"

    @property
    def dra_driver(self) -> Path:
        """Offers cards by Dynamic Resource Allocation."""
        return self.folder / "gpu-kubelet-plugin"

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
        _run(command, env=os.environ | driver.environment)


def why_not() -> str | None:
    """Say why they cannot be had here; None if they can."""
    if not _missing(cache_folder()):
        return library.why_not()
    if shutil.which("gcc") is None:
        return "NVIDIA's programs are compiled with cgo, and there is no `gcc` on PATH"
    return go_missing()


def cache_folder() -> Path:
    """Where the programs of exactly these versions belong."""
    content = hashlib.sha256(repr(PROGRAMS).encode())
    for module in sorted({module for module, _ in PROGRAMS.values()}):
        for file in ("go.mod", "go.sum"):
            content.update((MODULES / module / file).read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "gpu-fraction-injector" / "nvidia" / content.hexdigest()[:16]


def build(say: Callable[[str], None]) -> NvidiaParts:
    """Build what the cache lacks, one line to `say` for each program. A second caller waits for the first.

    Raises:
        BuildError: Go failed.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if _missing(folder):
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name in _missing(folder):
                started = time.monotonic()
                say(f"nvidia: building {name} ...")
                _build_one(name, folder)
                say(f"nvidia: built {name} in {time.monotonic() - started:.0f} s")
    return NvidiaParts(folder)


def _missing(folder: Path) -> list[str]:
    return [name for name in PROGRAMS if not (folder / name).exists()]


def _build_one(name: str, folder: Path) -> None:
    module, path = PROGRAMS[name]
    with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as scratch:
        made = Path(scratch, name)
        flags = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(made)]
        command = ["go", "build", *flags, path + name]
        _run(command, folder=MODULES / module, env=os.environ | {"GOWORK": "off", "CGO_ENABLED": "1"})
        made.rename(folder / name)


def _run(command: Sequence[str], env: Mapping[str, str], folder: Path | None = None) -> None:
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed:\n{ended.stderr[-4000:]}")


def main() -> None:
    """Build everything, or look for it with `--cached`, and print where it lies."""
    if "--cached" in sys.argv[1:] and (missing := _missing(cache_folder())):
        raise SystemExit(f"NVIDIA's programs are not built here: {', '.join(missing)} missing")
    if reason := why_not():
        raise SystemExit(reason)
    print(build(lambda line: print(line, flush=True)).folder)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
