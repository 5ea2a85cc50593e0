"""Stands in for NVIDIA's `nvidia-cdi-hook apply-cuda-memory-limits`, and for the driver behind it.

A runtime runs it before a container starts: FILE apply-cuda-memory-limits ... --gpu-id UUID. It adds to FILE,
as a line of JSON, the control group of the container, the UUID and the MiB. As NVIDIA's, it takes the first
of a name.
"""

import json
import sys
from pathlib import Path

NAME = "apply-cuda-memory-limits"
LIMIT = "NVIDIA_GPU_MEMORY_LIMIT="


def main() -> None:
    """Note the limit that a container's variables name, if they name any."""
    file, uuid = sys.argv[1], sys.argv[-1]
    state = json.load(sys.stdin)
    configuration = json.loads((Path(state["bundle"]) / "config.json").read_text())
    limits = [each.removeprefix(LIMIT) for each in configuration["process"]["env"] if each.startswith(LIMIT)]
    if not limits:
        return
    groups = Path(f"/proc/{state['pid']}/cgroup").read_text().splitlines()
    [group] = [path for _, names, path in (line.split(":", 2) for line in groups) if names == "memory"]
    with Path(file).open("a") as told:
        told.write(json.dumps({"group": group, "uuid": uuid, "mib": int(limits[0])}) + "\n")


if __name__ == "__main__":
    main()
