"""Build the control plane's binaries from Go modules, once, into a cache folder.

`python -m testbed.binaries` builds what is missing and prints the folder; `K8S=1.30` builds that Kubernetes.
With `--cached` it builds nothing, and fails where something is missing.
The folder is named by the hash of everything that decides its content, so a changed version is a new folder
and never a mixture.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.kubernetes_version import UNDER_TEST, Release

MODULE = Path(__file__).parent
GO_NEEDED = (1, 26)


@dataclass(frozen=True, slots=True)
class Binary:
    """A command of this folder's Go module, or installed by version where `package` names it (`@v...`)."""

    name: str
    package: str


BINARIES = (
    Binary("etcd", "./etcdmain"),
    Binary("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Binary("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Binary("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Binary("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    Binary("kwok", "sigs.k8s.io/kwok/cmd/kwok@v0.8.0"),
    Binary("helm", "helm.sh/helm/v4/cmd/helm@v4.3.1"),
)


class BuildError(Exception):
    """A binary could not be built; the text ends with what Go said."""


def go_missing() -> str | None:
    """Say why nothing can be built here: no Go, or one older than `GO_NEEDED`. None if all is well."""
    needed = ".".join(map(str, GO_NEEDED))
    if shutil.which("go") is None:
        return f"the control plane is built with Go {needed} or newer, and there is no `go` on PATH"
    # Inside a module Go may switch to the toolchain that the module names, and would report that one.
    found = subprocess.run(["go", "env", "GOVERSION"], cwd="/", capture_output=True, text=True, check=True)
    version = re.match(r"go(\d+)\.(\d+)", found.stdout)
    if version is None or tuple(map(int, version.groups())) < GO_NEEDED:
        return f"the control plane is built with Go {needed} or newer, and `go` is {found.stdout.strip()}"
    return None


def cache_folder(release: Release = UNDER_TEST) -> Path:
    """Where the binaries of exactly these sources, modules and versions belong."""
    content = hashlib.sha256(repr(BINARIES).encode() + release.version.encode())
    for file in (release.module, release.sums, MODULE / "etcdmain" / "main.go"):
        content.update(file.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "gpu-fraction-injector" / "control-plane" / content.hexdigest()[:16]


def build(say: Callable[[str], None], release: Release = UNDER_TEST) -> Path:
    """Build what the cache lacks, one line to `say` for each binary; return the folder.

    A second caller waits for the first. An interrupted build leaves finished binaries only.

    Raises:
        BuildError: Go failed.
    """
    folder = cache_folder(release)
    folder.mkdir(parents=True, exist_ok=True)
    if _missing(folder):
        with _locked(folder / ".lock", say):
            missing = _missing(folder)
            for number, binary in enumerate(missing, 1):
                say(f"control plane: building {binary.name} ({number} of {len(missing)}) ...")
                started = time.monotonic()
                _build_one(binary, release, folder)
                say(f"control plane: built {binary.name} in {time.monotonic() - started:.0f} s")
    return folder


def _missing(folder: Path) -> list[Binary]:
    return [binary for binary in BINARIES if not (folder / binary.name).exists()]


@contextmanager
def _locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("control plane: another build is under way, waiting for it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_one(binary: Binary, release: Release, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
        command, environment = _command(binary, release, Path(scratch))
        ended = subprocess.run(
            command, cwd=MODULE, env=os.environ | environment, capture_output=True, text=True, check=False
        )
        if ended.returncode != 0:
            raise BuildError(f"{' '.join(command)} failed:\n{ended.stderr[-4000:]}")
        Path(scratch, binary.name).rename(folder / binary.name)


def _command(binary: Binary, release: Release, scratch: Path) -> tuple[list[str], dict[str, str]]:
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", _link_flags(binary, release)]
    environment = {"GOWORK": "off"}
    if "@" in binary.package:
        return ["go", "install", *flags, binary.package], environment | {"GOBIN": str(scratch)}
    flags += [f"-modfile={release.module}", "-o", str(scratch / binary.name)]
    return ["go", "build", *flags, binary.package], environment


def _link_flags(binary: Binary, release: Release) -> str:
    if not binary.package.startswith("k8s.io/kubernetes/"):
        return "-s -w"
    major, minor, _ = release.version.split(".")
    stamps = {"gitVersion": f"v{release.version}", "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(
        f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps.items()
    )


def main() -> None:
    """Build everything, or look for it with `--cached`, and print where it lies."""
    if "--cached" in sys.argv[1:] and (missing := _missing(cache_folder())):
        names = ", ".join(binary.name for binary in missing)
        raise SystemExit(
            f"Kubernetes {UNDER_TEST.version} is not built here, nothing runs on it: {names} missing"
        )
    if reason := go_missing():
        raise SystemExit(reason)
    print(build(lambda line: print(line, flush=True)))  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
