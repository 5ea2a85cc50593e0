"""Stands in for NVIDIA's `nvidia-cdi-hook apply-cuda-memory-limits`, and for the driver behind it.

A runtime runs it before a container starts: FILE apply-cuda-memory-limits ... --gpu-id UUID. It adds to FILE,
as a line of JSON, the control group of the container, the UUID, the MiB and what is requested of them. As
NVIDIA's, it takes the first of a name, requests all of the limit where no request is named, and limits
nothing where it cannot read the configuration.
"""

import json
import sys
from pathlib import Path

NAME = "apply-cuda-memory-limits"
LIMIT, REQUEST = "NVIDIA_GPU_MEMORY_LIMIT", "NVIDIA_GPU_MEMORY_REQUEST"


def main() -> None:
    """Note the limit that a container's variables name, if they name any."""
    file, uuid = sys.argv[1], sys.argv[-1]
    state = json.load(sys.stdin)
    try:
        configuration = json.loads((Path(state["bundle"]) / "config.json").read_text())
    except (OSError, ValueError) as error:
        sys.stderr.write(f"skipping: {error}\n")
        return
    said: dict[str, str] = {}
    for each in configuration["process"]["env"]:
        name, _, value = each.partition("=")
        said.setdefault(name, value)
    if LIMIT not in said:
        return
    groups = Path(f"/proc/{state['pid']}/cgroup").read_text().splitlines()
    [group] = [path for _, names, path in (line.split(":", 2) for line in groups) if names == "memory"]
    with Path(file).open("a") as log:
        limit = int(said[LIMIT])
        requested = int(said.get(REQUEST, limit))
        log.write(json.dumps({"group": group, "uuid": uuid, "mib": limit, "requested": requested}) + "\n")


if __name__ == "__main__":
    main()
