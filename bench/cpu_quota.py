"""Less CPU for a process than it wants: a cgroup of its own with a quota, of version 1 or 2. Needs root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
"""As the kubelet sets it for a container with a CPU limit."""


class NoQuotaError(OSError):
    """This process may not set CPU quotas."""


@contextmanager
def cpu_quota(pid: int, share: float) -> Iterator[None]:
    """Give a process at most this share of a core, until the context ends.

    Raises:
        NoQuotaError: this process may not make cgroups with a CPU quota here.
    """
    parent = ROOT / "cpu" if (ROOT / "cpu").is_dir() else ROOT
    folder = parent / f"fraction-injector-bench-{os.getpid()}-{pid}"
    try:
        if parent is ROOT:
            (ROOT / "cgroup.subtree_control").write_text("+cpu")
        folder.mkdir()
    except OSError as error:
        raise NoQuotaError(f"CPU quotas need root and a writable {parent}: {error}") from error
    try:
        _limit(folder, int(PERIOD_US * share))
        (folder / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for left in (folder / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(left)
        folder.rmdir()


def _limit(folder: Path, quota_us: int) -> None:
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
