"""Build the control plane's binaries from Go modules, once, into a cache folder.

`python -m testbed.binaries` builds what is missing and prints the folder; `K8S=1.30` builds that Kubernetes.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from testbed import building
from testbed.building import Say
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
    files = (release.module, release.module.with_suffix(".sum"), MODULE / "etcdmain" / "main.go")
    return building.folder_of("control-plane", repr(BINARIES) + release.version, *files)


def build(say: Say, release: Release = UNDER_TEST) -> Path:
    """Build what the cache lacks, one line to `say` for each binary; return the folder.

    Raises:
        BuildError: Go failed.
    """
    makers = {binary.name: partial(_make, binary, release) for binary in BINARIES}
    return building.make_missing("control plane", cache_folder(release), makers, say)


def _make(binary: Binary, release: Release, target: Path) -> None:
    flags = [
        "-ldflags",
        building.link_flags(release.version if "k8s.io/kubernetes/" in binary.package else ""),
    ]
    if "@" in binary.package:
        building.go("install", *flags, binary.package, folder=MODULE, GOBIN=str(target.parent))
        return
    flags += [f"-modfile={release.module}", "-o", str(target)]
    building.go("build", *flags, binary.package, folder=MODULE)


if __name__ == "__main__":
    building.command(go_missing, build)
