"""A daemon of docker in a folder of a test's own, and docker's own client."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from testbed.nodes import cgroups, parts
from testbed.process import Process
from tests.programs.baremetal.container_runtime import ContainerRuntime, skip_without

_DAEMON = {
    "storage-driver": "vfs",
    "features": {"containerd-snapshotter": False},
    "userland-proxy": False,
    "iptables": False,
    "ip6tables": False,
    "bridge": "none",
}
"""It changes nothing of the machine's network; CDI is on, as it is from Docker 28.3."""
READY_S = 120


class Docker(ContainerRuntime):
    """Docker with images and containers of its own; its daemon ends with it."""

    def __init__(self, folder):
        skip_without("busybox")
        if (reason := _why_no_client() or parts.why_not() or cgroups.why_not()) is not None:
            pytest.skip(reason)
        daemon, node = parts.build_dockerd(_say), parts.build(_say)
        # Not in the folder of the test: the path of a socket is short.
        self._folder = Path(tempfile.mkdtemp(prefix="docker-", dir="/tmp"))
        self._group = f"fraction-injector-{self._folder.name}"
        socket = f"unix://{self._folder}/docker.sock"
        arguments = [f"--config-file={self._config()}", f"--host={socket}"]
        self._daemon = Process(
            [str(daemon), *arguments], folder / "dockerd.log", grace_s=60, environment=node.environment
        )
        try:
            self._daemon.until_ready(lambda: self._answers(socket), READY_S)
            super().__init__("docker", {"DOCKER_HOST": socket}, folder)
        except BaseException:
            self._end()
            raise

    def close(self):
        try:
            super().close()
        finally:
            self._end()

    def _end(self):
        self._daemon.stop()
        assert cgroups.clear([each / self._group for each in cgroups.HIERARCHIES.iterdir()]) == []
        shutil.rmtree(self._folder)

    def _config(self):
        own = {
            name: str(self._folder / file)
            for name, file in {"data-root": "data", "exec-root": "run", "pidfile": "pid"}.items()
        }
        file = self._folder / "daemon.json"
        file.write_bytes(msgspec.json.encode(_DAEMON | own | {"cgroup-parent": f"/{self._group}"}))
        return file

    def _answers(self, socket):
        asked = ["docker", f"--host={socket}", "info"]
        return subprocess.run(asked, check=False, capture_output=True).returncode == 0


def _why_no_client():
    """Why docker's own client cannot be used; None if it can. Podman may have the name docker."""
    missing = "there is no client of docker on PATH"
    if shutil.which("docker") is None:
        return missing
    said = subprocess.run(["docker", "--version"], check=False, capture_output=True, text=True).stdout
    return None if "Docker version" in said else missing


def _say(line):
    print(line, file=sys.stderr)  # noqa: T201 - it takes minutes once
