"""Debian's podman in a folder of a test's own, with one image: busybox."""

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

IMAGE = "localhost/busybox"
CDI = Path("/var/run/cdi")
"""Podman reads no other folder that a test could have for itself: names are."""
_CONF = """\
[containers]
# Not more than a sandbox may have; a machine needs none of this file.
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
"""


class Podman:
    """Variables under which podman has its own images and containers, and CDI devices of cards."""

    def __init__(self, folder):
        for program in ("podman", "runc", "busybox"):
            if shutil.which(program) is None:
                reason = f"there is no {program} on PATH: containers are run by podman"
                (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
        if os.geteuid() != 0:
            pytest.skip("only root writes /var/run/cdi, where podman reads CDI specifications")
        self.env = {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }
        (folder / "containers.conf").write_text(_CONF)
        storage = {"driver": "vfs", "graphroot": str(folder / "images"), "runroot": str(folder / "run")}
        lines = [f'{key} = "{value}"' for key, value in storage.items()]
        (folder / "storage.conf").write_text("\n".join(["[storage]", *lines, ""]))
        self.uuids = [f"GPU-{uuid.uuid4()}" for _ in range(2)]
        self._file = CDI / f"{self.uuids[0]}.json"
        self._import(folder / "busybox")
        CDI.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._specification()))

    def __call__(self, *arguments):
        """Run podman; return what it prints."""
        command = ["podman", *arguments]
        return subprocess.run(
            command, env=os.environ | self.env, check=True, capture_output=True, text=True
        ).stdout

    def containers(self):
        """Names of all containers, also of those that have ended."""
        return self("ps", "--all", "--format", "{{.Names}}").split()

    def close(self):
        """Remove what is left."""
        self("rm", "--all", "--force")
        self._file.unlink()
        for each in self.uuids:
            (CDI / f"clearml-injector.io-slices-{each}.json").unlink(missing_ok=True)

    def _import(self, root):
        (root / "bin").mkdir(parents=True)
        shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
        for name in ("sh", "sleep", "echo", "cat", "env", "pwd", "true"):
            (root / "bin" / name).symlink_to("busybox")
        archive = shutil.make_archive(str(root), "tar", root)
        self("import", "--quiet", archive, IMAGE)

    def _specification(self):
        devices = [
            {"name": each, "containerEdits": {"env": [f"CARD_{number}={each}"]}}
            for number, each in enumerate(self.uuids)
        ]
        return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}
