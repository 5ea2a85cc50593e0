"""The machine under a bench: its cores, what else ran meanwhile, and the versions of what was measured."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

MEASURED = ("httptools", "msgspec", "prometheus-client", "uvicorn", "uvloop")
NOTABLE_FOREIGN_LOAD = 0.05
"""Of one core. More makes absolute figures drift; ratios of one interleaved run bear it."""

MEASURED_CORE, LOADING_CORE = max(os.sched_getaffinity(0)), min(os.sched_getaffinity(0))
"""One core for what is measured and one for what loads it; the same one where there is no other."""

ROOT = Path(__file__).parent.parent

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which figures were measured."""

    processor: str
    cores: int
    python: str
    versions: dict[str, str]
    commit: str
    date: str
    foreign_load: float
    """Cores that others kept busy, on average; what a hypervisor took counts as others."""

    def lines(self) -> list[str]:
        """For people, below a table."""
        parts = " ".join(f"{name} {number}" for name, number in self.versions.items())
        lines = [
            f"{self.cores} cores of {self.processor}, Python {self.python}, commit {self.commit}",
            parts,
        ]
        if self.foreign_load > NOTABLE_FOREIGN_LOAD:
            lines.append(
                f"FOREIGN LOAD: others kept {self.foreign_load:.2f} cores busy meanwhile;"
                " compare ratios, not absolute figures"
            )
        return lines


class Watch:
    """Watches from its making to `stop` how busy the machine is apart from this process and its children."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._busy = _busy_seconds()
        self._own = _own_seconds()

    def stop(self) -> Conditions:
        """What it was like; all child processes must have been waited for."""
        wall = time.monotonic() - self._started
        foreign = (_busy_seconds() - self._busy) - (_own_seconds() - self._own)
        return Conditions(
            processor=_processor(),
            cores=os.cpu_count() or 1,
            python=platform.python_version(),
            versions={name: version(name) for name in MEASURED},
            commit=_commit(),
            date=time.strftime("%Y-%m-%d", time.gmtime()),
            foreign_load=round(max(0.0, foreign / wall), 3),
        )


def pin(core: int) -> None:
    """Keep this process on one core."""
    os.sched_setaffinity(0, {core})


def _busy_seconds() -> float:
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, soft_irq, steal = fields
    return (user + nice + system + irq + soft_irq + steal) / _TICKS


def _own_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    """The commit that is checked out; `-dirty` if anything differs from it."""
    named = subprocess.run(
        ["git", "describe", "--always"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    same = subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT, check=False)
    return (named.stdout.strip() or "unknown") + ("-dirty" if same.returncode == 1 else "")
