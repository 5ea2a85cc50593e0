"""Finds the container of a process, by its control group and by the kubelet's links to logs.

For that the agent's pod needs `hostPID` and /var/log/containers; without them no process is found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_ID = re.compile(r"[0-9a-f]{64}")
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_LOG = re.compile(r"(?P<pod>[^_]+)_(?P<namespace>[^_]+)_(?P<container>.+)-(?P<id>[0-9a-f]{64})\.log")


@dataclass(frozen=True, slots=True)
class ContainerName:
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


def running_containers(logs: Path) -> dict[str, ContainerName]:
    """Return the node's containers by ID, from the kubelet's links to their logs; none without links."""
    try:
        names = [path.name for path in logs.iterdir()]
    except OSError:
        return {}
    found = [match for name in names if (match := _LOG.fullmatch(name))]
    return {
        match["id"]: ContainerName(match["namespace"], match["pod"], match["container"]) for match in found
    }


@dataclass(frozen=True, slots=True)
class ContainerId:
    """A container as in the names of control groups."""

    id: str
    pod_uid: str
    """Empty if the names do not contain it."""


def container_id_of(pid: int, proc: Path) -> ContainerId | None:
    """Return the container of a process; None if it runs in none, or has ended."""
    try:
        groups = (proc / str(pid) / "cgroup").read_text()
    except OSError:
        return None
    found, pods = _ID.findall(groups), _POD.findall(groups)
    return ContainerId(found[-1], pods[-1].replace("_", "-") if pods else "") if found else None
