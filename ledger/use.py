"""What pods use of their shares, by the reports of the nodes' agents. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

HOUR_SECONDS = 3600
"""The time over which agents average GPU time."""
_MAX_PERCENT = 100


class MeasuredUse(Protocol):
    """What a container uses of one GPU, in an agent's report."""

    @property
    def namespace(self) -> str: ...  # noqa: D102 - the words are those of the GpuNode
    @property
    def pod(self) -> str: ...  # noqa: D102
    @property
    def gpu(self) -> int: ...  # noqa: D102
    @property
    def memory_mib(self) -> int: ...  # noqa: D102
    @property
    def used_mib(self) -> int: ...  # noqa: D102
    @property
    def peak_mib(self) -> int: ...  # noqa: D102
    @property
    def p95_mib(self) -> int: ...  # noqa: D102
    @property
    def busy_percent(self) -> int | None: ...  # noqa: D102
    @property
    def since(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class ShareUse:
    """What a pod uses of its share of a GPU, or of all its shares on a node."""

    memory_mib: int
    """MiB that it may use."""
    used_mib: int
    peak_mib: int
    """The most that it was seen to use; of several containers, at different times."""
    p95_mib: int
    """That it did not exceed in 95 % of the time."""
    busy_percent: int | None
    """Part of the last hour, or of the time since `since`, that its kernels ran; None if unknown."""
    since: str
    """When all its containers were first measured, in RFC 3339."""


UseKey = tuple[str, str, int | None]
"""Namespace and pod, and the number of the GPU; None for all GPUs of the node."""


def by_pod(uses: Iterable[MeasuredUse]) -> Mapping[UseKey, ShareUse]:
    """Return the use of the pods of one node, on each GPU and on all."""
    found: defaultdict[UseKey, list[MeasuredUse]] = defaultdict(list)
    for use in uses:
        found[use.namespace, use.pod, use.gpu].append(use)
        found[use.namespace, use.pod, None].append(use)
    return {key: _sum(each) for key, each in found.items()}


def _sum(uses: Sequence[MeasuredUse]) -> ShareUse:
    busy = [use.busy_percent for use in uses if use.busy_percent is not None]
    gpus = len({use.gpu for use in uses})
    return ShareUse(
        sum([use.memory_mib for use in uses]),
        sum([use.used_mib for use in uses]),
        sum([use.peak_mib for use in uses]),
        sum([use.p95_mib for use in uses]),
        min(_MAX_PERCENT, round(sum(busy) / gpus)) if len(busy) == len(uses) else None,
        max([use.since for use in uses]),
    )


def memory_text(use: ShareUse) -> str:
    """Return the used memory and its peak."""
    return f"{use.used_mib} of {use.memory_mib} MiB (peak {use.peak_mib})"


def time_text(use: ShareUse, now: datetime) -> str:
    """Return the GPU time, and over which time; empty if it is unknown."""
    return f"{use.busy_percent} % {_period(use.since, now)}" if use.busy_percent is not None else ""


def sentence(gpu: int | None, use: ShareUse, now: datetime) -> str:
    """Return what a pod uses of one GPU, or of all (None), as a sentence."""
    whose = "its GPUs" if gpu is None else f"GPU {gpu}"
    time = time_text(use, now)
    busy = f", and its kernels ran {time}" if time else ""
    return f"Of {whose} it uses {memory_text(use)}{busy}."


def seconds_since(since: str, now: datetime) -> float:
    """Return how long ago an RFC 3339 time was; 0 for one that cannot be read, or is in the future."""
    try:
        return max(0.0, (now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds())
    except (ValueError, OverflowError):  # an offset may lead out of the years 1 to 9999
        return 0.0


def _period(since: str, now: datetime) -> str:
    """Return over which time GPU time was averaged."""
    seconds = seconds_since(since, now)
    return "in the last hour" if seconds >= HOUR_SECONDS else f"in the last {max(1, int(seconds) // 60)} min"
