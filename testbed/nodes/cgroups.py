"""Control groups (version 1) of a sandbox: one in each hierarchy, below the caller's own and its limits."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

HIERARCHIES = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "devices", "freezer", "blkio", "pids", "memory")
POLL_S = 0.05


def why_not() -> str | None:
    """Say what speaks against groups of our own on this machine; None if nothing does."""
    missing = [name for name in CONTROLLERS if not (HIERARCHIES / name / "cgroup.procs").exists()]
    if missing:
        return f"cgroup v1 hierarchies are needed, and {HIERARCHIES} lacks {', '.join(missing)}"
    unwritable = [name for name in CONTROLLERS if not os.access(_own(name), os.W_OK)]
    return f"cannot write to the cgroup hierarchies {', '.join(unwritable)}" if unwritable else None


def create(name: str) -> list[Path]:
    """Make a group of that name in every hierarchy."""
    groups = [_own(controller) / name for controller in CONTROLLERS]
    for group in groups:
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (
                group / setting
            ).exists():  # empty until somebody says otherwise, and then no process may enter
                (group / setting).write_text((group.parent / setting).read_text())
    return groups


def _own(controller: str) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            own = HIERARCHIES / controller / path.lstrip("/")
            # In a container the path may be one of the machine's, which is not to be seen here.
            return own if own.exists() else HIERARCHIES / controller
    return HIERARCHIES / controller


def clear(groups: list[Path], seconds: float = 30) -> list[Path]:
    """Kill every process in the groups and remove them with all groups below; return those that stayed."""
    end = time.monotonic() + seconds
    while left := [group for group in groups if group.exists()]:
        if time.monotonic() > end:
            return left
        for group in left:
            _clear_once(group)
        time.sleep(POLL_S)
    return []


def _clear_once(group: Path) -> None:
    below = [Path(folder) for folder, _, _ in os.walk(group, topdown=False)]
    for folder in below:
        with suppress(OSError):
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
    for folder in below:
        with suppress(OSError):
            folder.rmdir()
