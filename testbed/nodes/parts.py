"""What a node is made of: built from Go modules or unpacked from Debian packages, once, into a cache folder.

`python -m testbed.nodes.parts` makes what is missing, also daemons that only some tests need, and prints the
folder. No package is installed: they are fetched and unpacked, so that no daemon starts and nothing outside
changes.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from testbed import building
from testbed.binaries import go_missing
from testbed.building import BuildError, Say
from testbed.kubernetes_version import UNDER_TEST

MODULE = Path(__file__).parent
KUBERNETES = "1.37.2"
GO_PACKAGES = {
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "deviceplugin": "./deviceplugin",
}
CONTAINERD = "github.com/containerd/containerd/v2/cmd/{}@v2.4.2"
CDI_SWITCH = "github.com/containerd/containerd/v2/cmd/containerd@v2.2.1"
CONTAINERD_TAGS = "no_btrfs,no_devmapper,no_zfs"
DOCKERD = "github.com/moby/moby/v2/cmd/dockerd@v2.0.0-beta.24"
DOCKERD_TAGS = "exclude_graphdriver_btrfs,exclude_disk_quota"
RUNC = "github.com/opencontainers/runc@v1.5.2"
"""The version that this containerd is released with: Debian's 1.1 has no user namespaces for pods."""
RUNC_TAGS = "seccomp"
INSTALLED = {
    **{
        name: (CONTAINERD.format(name), CONTAINERD_TAGS)
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    "runc": (RUNC, RUNC_TAGS),
}
"""Commands that are installed by version: where each is, and its build tags."""
PACKAGES = (
    *("libseccomp2", "libseccomp-dev", "containernetworking-plugins", "busybox-static", "nftables"),
    *("libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libxtables12", "libedit2"),
    *("libbsd0", "libmd0"),
)


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of a node lie.

    Attributes:
        folder: Of the commands that were built.
    """

    folder: Path

    @property
    def debian(self) -> Path:
        """Root of what was unpacked."""
        return self.folder / "debian"

    @property
    def busybox(self) -> Path:
        """A shell with everything in it, in one static file."""
        return self.debian / "bin" / "busybox"

    @property
    def cni(self) -> Path:
        """Folder of the network plugins."""
        return self.debian / "usr" / "lib" / "cni"

    @property
    def runc(self) -> Path:
        """The command that makes containers."""
        return self.folder / "runc"

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which each part finds the others."""
        folders = [self.folder, self.debian / "usr" / "sbin", self.debian / "usr" / "bin"]
        return {
            "PATH": ":".join([*map(str, folders), os.environ.get("PATH", "/usr/bin:/bin")]),
            "LD_LIBRARY_PATH": ":".join(str(lib) for lib in sorted(self.debian.glob("**/lib/*-linux-gnu"))),
        }


def why_not() -> str | None:
    """Say why nodes of the Kubernetes under test cannot be built; None if they can."""
    if UNDER_TEST.version != KUBERNETES:
        return f"real nodes are of Kubernetes {KUBERNETES}, and K8S asks for {UNDER_TEST.version}"
    return go_missing() or _compiler_missing()


def _compiler_missing() -> str | None:
    for tool in ("gcc", "pkg-config"):
        if shutil.which(tool) is None:
            return f"runc is built with the command `{tool}`, and it is not on PATH"
    return None


def cache_folder() -> Path:
    """Where the parts of exactly these versions belong."""
    files = [MODULE / file for file in ("go.mod", "go.sum", "deviceplugin/main.go")]
    return building.folder_of("nodes", repr((KUBERNETES, GO_PACKAGES, INSTALLED, PACKAGES)), *files)


def build(say: Say) -> Parts:
    """Make what the cache lacks, one line to `say` for each part.

    Raises:
        BuildError: Go or apt-get failed.
    """
    makers = {
        "debian": _unpack,
        **dict.fromkeys(GO_PACKAGES, _go_build),
        **dict.fromkeys(INSTALLED, _go_install),
    }
    return Parts(building.make_missing("nodes", cache_folder(), makers, say))


def build_with_cdi_switch(say: Say) -> Path:
    """Build, once, a containerd whose configuration can turn CDI off; that of the nodes, 2.4, cannot.

    Raises:
        BuildError: Go failed.
    """
    return _built_apart(CDI_SWITCH, CONTAINERD_TAGS, say)


def build_dockerd(say: Say) -> Path:
    """Build, once, docker's daemon; it needs a node's containerd and runc on its PATH.

    Raises:
        BuildError: Go failed.
    """
    return _built_apart(DOCKERD, DOCKERD_TAGS, say, CGO_ENABLED="0")


def _built_apart(command: str, tags: str, say: Say, **environment: str) -> Path:
    package, _, version = command.partition("@")
    name = Path(package).name
    folder = cache_folder().parent.with_name(name) / version
    return (
        building.make_missing("nodes", folder, {name: partial(_install, command, tags, **environment)}, say)
        / name
    )


def _unpack(target: Path) -> None:
    target.mkdir()
    with tempfile.TemporaryDirectory(prefix="packages-") as scratch:
        try:
            building.run("apt-get", "--quiet=2", "download", *PACKAGES, folder=scratch)
        except BuildError:
            building.run("apt-get", "--quiet=2", "update", folder=scratch)
            building.run("apt-get", "--quiet=2", "download", *PACKAGES, folder=scratch)
        for package in sorted(Path(scratch).glob("*.deb")):
            building.run("dpkg", "--extract", str(package), str(target), folder=scratch)


def _go_build(target: Path) -> None:
    flags = ("-ldflags", building.link_flags(KUBERNETES), "-o", str(target))
    building.go("build", *flags, GO_PACKAGES[target.name], folder=MODULE)


def _go_install(target: Path) -> None:
    debian = cache_folder() / "debian"
    libraries = ":".join(str(folder) for folder in sorted(debian.glob("usr/lib/*/pkgconfig")))
    headers = {"PKG_CONFIG_SYSROOT_DIR": str(debian), "PKG_CONFIG_LIBDIR": libraries}
    _install(*INSTALLED[target.name], target, **headers)


def _install(command: str, tags: str, target: Path, **environment: str) -> None:
    flags = ("-tags", tags, "-ldflags", "-s -w")
    building.go("install", *flags, command, folder=MODULE, GOBIN=str(target.parent), **environment)


def main() -> None:
    """Make everything and print where it lies."""
    if reason := why_not():
        raise SystemExit(reason)
    folder = build(building.say).folder
    build_with_cdi_switch(building.say)
    if shutil.which("docker"):  # without its client nobody asks the daemon
        build_dockerd(building.say)
    building.say(str(folder))


if __name__ == "__main__":
    main()
