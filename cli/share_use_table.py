"""`ledger --use`: one line for each share of a pod, with what the pod uses of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cli.printing import camel, table
from ledger.use import time_text

if TYPE_CHECKING:
    from ledger.use import GpuSize, UsedShare

HEADINGS = ("NODE", "GPU", "POD", "SHARE", "MIB USED", "PEAK", "P95", "GPU TIME")
_UNKNOWN = "-"


def use_lines(shares: Sequence[UsedShare], now: datetime) -> str:
    """Return the table, and what it lacks."""
    if not shares:
        return "no pod holds a share of a GPU"
    lines = [table([HEADINGS, *(_row(each, now) for each in shares)])]
    if unknown := [each for each in shares if each.use is None]:
        nodes = len({each.node for each in unknown})
        where = "1 node" if nodes == 1 else f"{nodes} nodes"
        lines.append(
            f"not measured: {len(unknown)} of {len(shares)} shares, on {where};"
            " with agent.podMetrics agents measure every 15 s"
        )
    return "\n".join(lines)


def _row(held: UsedShare, now: datetime) -> tuple[str, ...]:
    use = held.use
    place = (held.node, held.gpu, f"{held.namespace}/{held.pod}", held.size.text(held.held))
    if use is None:
        return (*place, *[_UNKNOWN] * 4)
    used = f"{use.used_mib} of {use.memory_mib}"
    return (*place, used, str(use.peak_mib), str(use.p95_mib), time_text(use, now) or _UNKNOWN)


def use_as_json(held: UsedShare) -> dict[str, Any]:
    """Return a share for `-o json`; the figures are null if they are not measured."""
    whose = {name: getattr(held, name) for name in ("node", "gpu", "namespace", "pod", "queue")}
    figures = ("memory_mib", "used_mib", "peak_mib", "p95_mib", "busy_percent", "since")
    return (
        whose
        | size_as_json(held.size, held.held)
        | {camel(name): getattr(held.use, name, None) for name in figures}
    )


def size_as_json(size: GpuSize, held: int) -> dict[str, Any]:
    """Return a part of a GPU for `-o json`, in slices or in MiB; the others are null."""
    return {
        "slices": size.slices(held),
        "slicesPerGpu": size.slices(size.amount),
        "claimedMiB": size.mib(held),
        "cardMiB": size.mib(size.amount),
    }
