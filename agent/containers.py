"""Finds the container of a process, by its control group and by the kubelet's links to logs.

For that the agent's pod needs `hostPID` and /var/log/containers; without them no process is found.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
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


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """The container of a process."""

    name: ContainerName
    id: ContainerId


@dataclass(frozen=True, slots=True)
class Attribution:
    """Which containers processes belong to."""

    containers: Mapping[int, RunningContainer]
    """By process ID, without processes of the node itself."""
    unknown: frozenset[int]
    """Processes that run in an unknown container, or whose control group cannot be read."""


def attribute(pids: Collection[int], logs: Path, proc: Path) -> Attribution:
    """Find the containers of processes; it reads files."""
    names = running_containers(logs) if pids else {}
    containers: dict[int, RunningContainer] = {}
    unknown = set()
    for pid in sorted(pids):
        groups = _groups_of(pid, proc)
        found = container_in(groups) if groups is not None else None
        if found is not None and found.id in names:
            containers[pid] = RunningContainer(names[found.id], found)
        elif found is not None or groups is None:
            unknown.add(pid)
    return Attribution(containers, frozenset(unknown))


def _groups_of(pid: int, proc: Path) -> str | None:
    try:
        return (proc / str(pid) / "cgroup").read_text()
    except OSError:
        return None


def container_in(groups: str) -> ContainerId | None:
    """Return the container that names of control groups contain; None if they contain none."""
    found, pods = _ID.findall(groups), _POD.findall(groups)
    return ContainerId(found[-1], pods[-1].replace("_", "-") if pods else "") if found else None
