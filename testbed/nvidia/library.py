"""Libraries with the ABI of NVML, CUDA and a limiter: compiled once, and found by the names of the real ones.

`NVML_CARDS` names the file of cards of a process; without it the library reads `cards` next to itself.
"""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from functools import cache
from pathlib import Path

from testbed import building

FOLDER = Path(__file__).parent
NAME = "libnvidia-ml.so.1"
"""By which every program looks for it."""
CUDA, LIMITER = "libcuda.so.1", "libvgpu.so"
SOURCES = {
    NAME: ("nvml/*.c",),
    CUDA: ("cuda/*.c", "nvml/cards.c", "nvml/programs.c"),
    LIMITER: ("limiter/*.c",),
}
CARDS = "NVML_CARDS"
COMPILER = ("gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,-Bsymbolic", "-x", "c")
"""As NVIDIA's own: a limiter that is preloaded does not come between two functions of one library."""


def why_not() -> str | None:
    """Say why it cannot be had here; None if it can."""
    if built().exists() or shutil.which(COMPILER[0]):
        return None
    return "the stand-in for NVIDIA's driver library is compiled by gcc, and there is no `gcc` on PATH"


def built() -> Path:
    """Where the library of exactly these sources belongs."""
    files = sorted(file for kind in ("nvml", "cuda", "limiter") for file in (FOLDER / kind).iterdir())
    return building.folder_of("nvml", repr((COMPILER, SOURCES)), *files) / NAME


def build(name: str = NAME) -> Path:
    """Compile a library, if that was not done yet, and return the file.

    `CUDA` counts memory over processes and computes nothing; `LIMITER`, preloaded, limits plain allocations.

    Raises:
        BuildError: gcc failed.
    """
    library = built().with_name(name)
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        sources = [str(file) for pattern in SOURCES[name] for file in sorted(FOLDER.glob(pattern))]
        with tempfile.TemporaryDirectory(dir=library.parent, prefix=".making-") as scratch:
            made = Path(scratch, name)
            options = (f"-Wl,-soname,{name}", "-o", str(made), *sources, "-lpthread", "-ldl")
            building.run(*COMPILER, *options)
            made.rename(library)
    return library


@cache
def load() -> None:
    """Have this process find it by name from now on: a name that is loaded is not looked for again."""
    ctypes.CDLL(str(build()))


def environment(cards: Path) -> dict[str, str]:
    """Return the variables by which a program finds it and its cards."""
    return {"LD_LIBRARY_PATH": str(build().parent), CARDS: str(cards)}
