"""What a node is made of: built from Go modules or unpacked from Debian packages, once, into a cache folder.

`python -m testbed.nodes.parts` makes what is missing, also daemons that only some tests need, and prints the
folder. No package is installed: they are fetched and unpacked, so that no daemon starts and nothing outside
changes.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.binaries import BuildError, go_missing
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
BUILD_SECONDS = 2400
"""For one command. A download may hang, and everything that waits for it with it."""
PACKAGES = (
    "libseccomp2",
    "libseccomp-dev",
    "containernetworking-plugins",
    "busybox-static",
    "nftables",
    "libnftables1",
    "libnftnl11",
    "libmnl0",
    "libjansson4",
    "libxtables12",
    "libedit2",
    "libbsd0",
    "libmd0",
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
    content = hashlib.sha256(repr((KUBERNETES, GO_PACKAGES, INSTALLED, PACKAGES)).encode())
    for file in ("go.mod", "go.sum", "deviceplugin/main.go"):
        content.update((MODULE / file).read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "gpu-fraction-injector" / "nodes" / content.hexdigest()[:16]


def build(say: Callable[[str], None]) -> Parts:
    """Make what the cache lacks, one line to `say` for each part. A second caller waits for the first.

    Raises:
        BuildError: Go or apt-get failed.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, make in _makers().items():
            if not (folder / name).exists():
                started = time.monotonic()
                say(f"nodes: making {name} ...")
                with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as scratch:
                    made = Path(scratch, name)
                    make(made)
                    made.rename(folder / name)
                say(f"nodes: made {name} in {time.monotonic() - started:.0f} s")
    return Parts(folder)


def build_with_cdi_switch(say: Callable[[str], None]) -> Path:
    """Build, once, a containerd whose configuration can turn CDI off; that of the nodes, 2.4, cannot.

    Raises:
        BuildError: Go failed.
    """
    return _built_apart(CDI_SWITCH, CONTAINERD_TAGS, say)


def build_dockerd(say: Callable[[str], None]) -> Path:
    """Build, once, docker's daemon; it needs a node's containerd and runc on its PATH.

    Raises:
        BuildError: Go failed.
    """
    return _built_apart(DOCKERD, DOCKERD_TAGS, say, CGO_ENABLED="0")


def _built_apart(command: str, tags: str, say: Callable[[str], None], **environment: str) -> Path:
    package, _, version = command.partition("@")
    name = Path(package).name
    folder = cache_folder().parent.with_name(name) / version
    folder.mkdir(parents=True, exist_ok=True)
    built = folder / name
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            say(f"nodes: making {name} {version} ...")
            with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as scratch:
                _go("install", "-tags", tags, "-ldflags", "-s -w", command, GOBIN=scratch, **environment)
                Path(scratch, name).rename(built)
    return built


def _makers() -> dict[str, Callable[[Path], None]]:
    return {
        "debian": _unpack,
        **dict.fromkeys(GO_PACKAGES, _go_build),
        **dict.fromkeys(INSTALLED, _go_install),
    }


def _unpack(target: Path) -> None:
    target.mkdir()
    with tempfile.TemporaryDirectory(prefix="packages-") as scratch:
        try:
            _run("apt-get", "--quiet=2", "download", *PACKAGES, folder=scratch)
        except BuildError:
            _run("apt-get", "--quiet=2", "update", folder=scratch)
            _run("apt-get", "--quiet=2", "download", *PACKAGES, folder=scratch)
        for package in sorted(Path(scratch).glob("*.deb")):
            _run("dpkg", "--extract", str(package), str(target), folder=scratch)


def _go_build(target: Path) -> None:
    major, minor, _ = KUBERNETES.split(".")
    stamps = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    flags = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps.items())
    _go("build", "-ldflags", f"-s -w {flags}", "-o", str(target), GO_PACKAGES[target.name])


def _go_install(target: Path) -> None:
    package, tags = INSTALLED[target.name]
    debian = cache_folder() / "debian"
    libraries = ":".join(str(folder) for folder in sorted(debian.glob("usr/lib/*/pkgconfig")))
    headers = {"PKG_CONFIG_SYSROOT_DIR": str(debian), "PKG_CONFIG_LIBDIR": libraries}
    flags = ["-tags", tags, "-ldflags", "-s -w"]
    _go("install", *flags, package, GOBIN=str(target.parent), **headers)


def _go(verb: str, *arguments: str, **environment: str) -> None:
    # The control plane's flags, so that what both are made of is compiled once.
    _run("go", verb, "-trimpath", "-buildvcs=false", *arguments, GOWORK="off", **environment)


def _run(*command: str, folder: str | Path = MODULE, **environment: str) -> None:
    env = os.environ | environment
    try:
        ended = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{' '.join(command)} did not end in {BUILD_SECONDS} s") from error
    if ended.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed:\n{ended.stderr[-4000:]}")


def main() -> None:
    """Make everything and print where it lies."""
    if reason := why_not():
        raise SystemExit(reason)
    folder = build(_say).folder
    build_with_cdi_switch(_say)
    if shutil.which("docker"):  # without its client nobody asks the daemon
        build_dockerd(_say)
    print(folder)  # noqa: T201 - a command's output


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
