"""The library with NVML's ABI: compiled once, into a cache folder, and found by the name of NVIDIA's.

`NVML_CARDS` names the file of cards of a process; without it the library reads `cards` next to itself.
"""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from functools import cache
from pathlib import Path

from testbed import building

SOURCES = Path(__file__).parent / "nvml"
NAME = "libnvidia-ml.so.1"
"""By which every program looks for it."""
CUDA = "libcuda.so.1"
CARDS = "NVML_CARDS"
COMPILER = ("gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-x", "c")


def why_not() -> str | None:
    """Say why it cannot be had here; None if it can."""
    if built().exists() or shutil.which(COMPILER[0]):
        return None
    return "the stand-in for NVIDIA's driver library is compiled by gcc, and there is no `gcc` on PATH"


def built() -> Path:
    """Where the library of exactly these sources belongs."""
    files = sorted(SOURCES.iterdir())
    return building.folder_of("nvml", repr((COMPILER, [file.name for file in files])), *files) / NAME


def build() -> Path:
    """Compile it, if that was not done yet, and return the file.

    Raises:
        BuildError: gcc failed.
    """
    return _built(NAME, sorted(SOURCES.glob("*.c")), "-lpthread", "-ldl")


def build_cuda() -> Path:
    """Compile a library that is empty but for CUDA's name, as `build` does; `nvidia-ctk` goes by the name."""
    return _built(CUDA, [Path("/dev/null")])


def _built(name: str, sources: list[Path], *libraries: str) -> Path:
    library = built().with_name(name)
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent, prefix=".making-") as scratch:
            made = Path(scratch, name)
            building.run(*COMPILER, f"-Wl,-soname,{name}", "-o", str(made), *map(str, sources), *libraries)
            made.rename(library)
    return library


@cache
def load() -> None:
    """Have this process find it by name from now on: a name that is loaded is not looked for again."""
    ctypes.CDLL(str(build()))


def environment(cards: Path) -> dict[str, str]:
    """Return the variables by which a program finds it and its cards."""
    return {"LD_LIBRARY_PATH": str(build().parent), CARDS: str(cards)}
