"""A container runtime of a test's own: busybox as its one image, and CDI devices of two cards."""

import os
import shutil
import subprocess
import uuid
from pathlib import Path

import msgspec
import pytest

IMAGE = "localhost/busybox"
CDI = Path("/var/run/cdi")
"""Podman reads no other folder that a test could have for itself: names are."""


def skip_without(*programs):
    """Fail a test if a program is missing, and skip it if this is not root."""
    for program in programs:
        if shutil.which(program) is None:
            reason = f"there is no {program} on PATH, with which containers are run"
            pytest.fail(reason)
    if os.geteuid() != 0:
        pytest.skip("only root writes /var/run/cdi, where runtimes read CDI specifications")


class ContainerRuntime:
    """Podman or docker, with variables under which its program finds images and containers of the test."""

    def __init__(self, program, env, folder):
        self.program, self.env = program, env
        self.uuids = [f"GPU-{uuid.uuid4()}" for _ in range(2)]
        self._file = CDI / f"{self.uuids[0]}.json"
        self._import(folder / "busybox")
        CDI.mkdir(parents=True, exist_ok=True)
        self._file.write_bytes(msgspec.json.encode(self._specification()))

    def __call__(self, *arguments):
        command = [self.program, *arguments]
        return subprocess.run(
            command, env=os.environ | self.env, check=True, capture_output=True, text=True
        ).stdout

    def containers(self):
        """Names of all containers, also of those that have ended."""
        return self("ps", "--all", "--format", "{{.Names}}").split()

    def close(self):
        for name in self.containers():
            self("rm", "--force", name)
        self._file.unlink()
        for each in self.uuids:
            (CDI / f"clearml-injector.io-slices-{each}.json").unlink(missing_ok=True)

    def _import(self, root):
        (root / "bin").mkdir(parents=True)
        shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
        for name in ("sh", "sleep", "echo", "cat", "env", "pwd", "true"):
            (root / "bin" / name).symlink_to("busybox")
        archive = shutil.make_archive(str(root), "tar", root)
        self("import", archive, IMAGE)

    def _specification(self):
        devices = [
            {"name": each, "containerEdits": {"env": [f"CARD_{number}={each}"]}}
            for number, each in enumerate(self.uuids)
        ]
        return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}
