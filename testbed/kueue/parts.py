"""Kueue's manager and its manifests, from its Go module once, into a cache folder.

`python -m testbed.kueue.parts` builds what is missing and prints the folder. With `--cached` it builds
nothing, and fails where something is missing. The version stands in `go.mod`.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.binaries import BuildError, go_missing

MODULE = Path(__file__).parent
KUEUE = "sigs.k8s.io/kueue"
MANAGER = "kueue"
MANIFESTS = "manifests"
"""Of the module's folder `config/components`."""
MANIFEST_FOLDERS = ("crd", "rbac", "webhook")


@dataclass(frozen=True, slots=True)
class KueueParts:
    """Where they lie.

    Attributes:
        folder: Of all of them.
    """

    folder: Path

    @property
    def manager(self) -> Path:
        """The program."""
        return self.folder / MANAGER

    @property
    def manifests(self) -> Path:
        """Folders `crd`, `rbac` and `webhook`, as kustomize reads them."""
        return self.folder / MANIFESTS


def cache_folder() -> Path:
    """Where the parts of exactly this version belong."""
    content = hashlib.sha256(repr((KUEUE, MANAGER, MANIFESTS, MANIFEST_FOLDERS)).encode())
    for file in ("go.mod", "go.sum"):
        content.update((MODULE / file).read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "gpu-fraction-injector" / "kueue" / content.hexdigest()[:16]


def why_not() -> str | None:
    """Say why they cannot be had here; None if they can."""
    return go_missing() if _missing(cache_folder()) else None


def build(say: Callable[[str], None]) -> KueueParts:
    """Build what the cache lacks, one line to `say` for each part. A second caller waits for the first.

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
                say(f"kueue: making its {name} ...")
                _make(name, folder)
                say(f"kueue: made its {name} in {time.monotonic() - started:.0f} s")
    return KueueParts(folder)


def _missing(folder: Path) -> list[str]:
    return [name for name in (MANIFESTS, MANAGER) if not (folder / name).exists()]


def _make(name: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as scratch:
        made = Path(scratch, name)
        if name == MANIFESTS:
            _go(["mod", "download", KUEUE])
            found = _go(["list", "-m", "-f", "{{.Dir}}", KUEUE]).strip()
            _copy_manifests(Path(found, "config", "components"), made)
        else:
            flags = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(made)]
            _go(["build", *flags, f"{KUEUE}/cmd/kueue"])
        made.rename(folder / name)


def _copy_manifests(source: Path, target: Path) -> None:
    """Copy what is needed; files and folders of a module are read-only."""
    for file in sorted(each for name in MANIFEST_FOLDERS for each in (source / name).rglob("*.yaml")):
        copied = target / file.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(file.read_bytes())


def _go(arguments: Sequence[str]) -> str:
    command, environment = ["go", *arguments], os.environ | {"GOWORK": "off"}
    ended = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed:\n{ended.stderr[-4000:]}")
    return ended.stdout


def main() -> None:
    """Build everything, or look for it with `--cached`, and print where it lies."""
    if "--cached" in sys.argv[1:] and (missing := _missing(cache_folder())):
        raise SystemExit(f"Kueue is not built here: its {' and '.join(missing)} missing")
    if reason := why_not():
        raise SystemExit(reason)
    print(build(lambda line: print(line, flush=True)).folder)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
