"""Finds the container of a process, by its control group and by the kubelet's links to logs.

For that the agent's pod needs `hostPID` and /var/log/containers; without them no process is found.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping
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


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """The container of a process."""

    name: ContainerName
    id: str
    pod_uid: str
    """Empty if the names of its control groups do not contain it."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Which containers processes belong to."""

    containers: Mapping[int, RunningContainer]
    """By process ID, without processes of the node itself."""
    unknown: frozenset[int]
    """Processes that run in an unknown container, or whose control group cannot be read."""


def attribute(pids: Collection[int], logs: Path, proc: Path) -> Attribution:
    """Find the containers of processes; it reads files."""
    names = dict(_named_by_logs(logs)) if pids else {}
    containers: dict[int, RunningContainer] = {}
    unknown = set()
    for pid in sorted(pids):
        try:
            groups = (proc / str(pid) / "cgroup").read_text()
        except OSError:
            unknown.add(pid)
            continue
        ids, pods = _ID.findall(groups), _POD.findall(groups)
        if ids and ids[-1] in names:
            pod_uid = pods[-1].replace("_", "-") if pods else ""
            containers[pid] = RunningContainer(names[ids[-1]], ids[-1], pod_uid)
        elif ids:
            unknown.add(pid)
    return Attribution(containers, frozenset(unknown))


def _named_by_logs(logs: Path) -> Iterator[tuple[str, ContainerName]]:
    """Yield the node's containers by ID, from the kubelet's links to their logs."""
    with contextlib.suppress(OSError):
        for path in logs.iterdir():
            if (match := _LOG.fullmatch(path.name)) is not None:
                yield match["id"], ContainerName(match["namespace"], match["pod"], match["container"])
