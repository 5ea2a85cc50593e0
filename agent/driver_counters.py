"""GPU memory that containers use, as the driver counts it by control group.

Drivers from 615 on do, on nodes with control groups of version 2. Neither the node's processes nor anything
that a container writes is read: the agent's pod needs only the names of the node's control groups and of the
containers' logs, and no `hostPID`.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.container_use import SeenUse
from agent.containers import ContainerId, ContainerName, container_in, running_containers
from agent.nvml import Nvml
from agent.shares import Share
from service.log import get_logger

MAX_GROUPS = 16384
"""Maximum control groups that are looked at in one measurement."""
_OF_PODS = re.compile(r"kube|pod|burstable|besteffort|guaranteed")
"""In the names of the groups above containers, by both of the kubelet's cgroup drivers."""
_OF_MONITORS = "conmon"
"""In the names of CRI-O's groups of the processes that watch containers, next to those of the containers."""


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """The control group of a container."""

    id: ContainerId
    path: Path


def groups_of_containers(root: Path) -> dict[str, ContainerGroup]:
    """Return the control groups of the node's containers, by container ID; it reads names of folders.

    Groups that containers have made in their own ones are not looked at.

    Args:
        root: the node's control groups.
    """
    found: dict[str, ContainerGroup] = {}
    left, looked = [root], 0
    while left:
        for path in _folders_in(left.pop()):
            looked += 1
            if looked > MAX_GROUPS:
                return found
            if _OF_MONITORS in path.name:
                continue
            inside = str(path.relative_to(root))
            if (container := container_in(inside)) is not None:
                found[container.id] = ContainerGroup(container, path)
            elif _OF_PODS.search(path.name):
                left.append(path)
    return found


class DriverCounters:
    """Asks the driver what the containers with shares use.

    Args:
        source: the driver.
        logs: the kubelet's links to the logs of containers.
        cgroups: the node's control groups, at the same path on the node.
    """

    def __init__(self, source: Nvml, logs: Path, cgroups: Path) -> None:
        self._source = source
        self._logs = logs
        self._cgroups = cgroups
        self._has_warned = False
        self._log = get_logger("driver counters")

    def seen(self, shares: Collection[tuple[ContainerName, Share]]) -> list[SeenUse]:
        """Return what the holders of shares use now, except those that the driver does not count.

        It blocks.
        """
        groups = self._by_name() if shares else {}
        return [use for name, share in shares for use in self._seen(name, share, groups.get(name, []))]

    def _by_name(self) -> dict[ContainerName, list[ContainerGroup]]:
        groups = groups_of_containers(self._cgroups)
        if not groups:  # this process has one, if they are of version 2 and the node's
            self._warn(f"{self._cgroups} has no control groups of containers, of version 2")
        found: defaultdict[ContainerName, list[ContainerGroup]] = defaultdict(list)
        for container, name in running_containers(self._logs).items():
            if container in groups:  # there are also links to the logs of ended containers
                found[name].append(groups[container])
        return found

    def _seen(
        self, name: ContainerName, share: Share, groups: Collection[ContainerGroup]
    ) -> Iterator[SeenUse]:
        used = [(each, self._source.used_by_group(share.gpu.uuid, each.path)) for each in groups]
        # The driver knows no group of a container that has ended meanwhile.
        here = [(each, mib) for each, mib in used if mib is not None or each.path.exists()]
        known = [mib for _, mib in here if mib is not None]
        if len(known) < len(here):
            self._warn(self._source.why_no_driver_limits() or "it has no figure for their control groups")
        elif known:
            yield SeenUse(name, share.gpu.index, share.usable_mib, sum(known), None, here[0][0].id.pod_uid)

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            self._log.warning("the driver does not say what some containers use", reason=reason)
        self._has_warned = True


def _folders_in(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_dir())
    except OSError:  # it has ended
        return
