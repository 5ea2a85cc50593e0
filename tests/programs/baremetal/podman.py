"""Debian's podman in a folder of a test's own."""

from tests.programs.baremetal.container_runtime import ContainerRuntime, skip_without

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


class Podman(ContainerRuntime):
    def __init__(self, folder):
        skip_without("podman", "runc", "busybox")
        (folder / "containers.conf").write_text(_CONF)
        storage = {"driver": "vfs", "graphroot": str(folder / "images"), "runroot": str(folder / "run")}
        lines = [f'{key} = "{value}"' for key, value in storage.items()]
        (folder / "storage.conf").write_text("\n".join(["[storage]", *lines, ""]))
        env = {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }
        super().__init__("podman", env, folder)
