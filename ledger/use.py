"""What pods use of their shares, by the reports of the nodes' agents. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ledger.view import NodeView

HOUR_SECONDS = 3600
"""The time over which agents average GPU time."""
_MAX_PERCENT = 100
_MINUTE = 60


class MeasuredUse(msgspec.Struct, frozen=True, gc=False):
    """What a container uses of its share of a GPU, in an agent's report."""

    namespace: str
    pod: str
    container: str
    gpu: int
    memory_mib: int = msgspec.field(name="memoryMiB")
    """That it may use."""
    used_mib: int = msgspec.field(name="usedMiB")
    peak_mib: int = msgspec.field(name="peakMiB")
    p95_mib: int = msgspec.field(name="p95MiB")
    since: str
    busy_percent: int | None = msgspec.field(default=None, name="busyPercent")
    idle_since: str = msgspec.field(default="", name="idleSince")
    """Since when no kernel was seen; empty if it is not idle, or that is unknown."""


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
    idle_seconds: int | None = None
    """How long no kernel of its containers was seen, as reported; None if one was, or that is unknown."""


class GpuSize(NamedTuple):
    """A GPU, in what shares of it are counted."""

    amount: int
    """Slices or MiB; 0 if unknown."""
    in_mib: bool = False
    """Whether it is a card of which claims take any part, so that shares are MiB."""

    def text(self, share: int) -> str:
        """Return a share of it for users."""
        text = f"{share} of {self.amount}" if self.amount else f"{share}"
        return f"{text} MiB" if self.in_mib else text

    def slices(self, amount: int | None) -> int | None:
        """Return an amount of slices; None for one of MiB."""
        return amount if not self.in_mib else None

    def mib(self, amount: int | None) -> int | None:
        """Return an amount of MiB; None for one of slices."""
        return amount if self.in_mib else None


@dataclass(frozen=True, slots=True)
class UsedShare:
    """A share of a GPU that a pod holds, and its use."""

    node: str
    gpu: str
    """Number of the GPU, MIG profile, "pool", or name of a card that a DRA driver offers."""
    namespace: str
    pod: str
    queue: str
    """Key of the pod's ClearML queue; empty for pods without one."""
    held: int
    size: GpuSize
    use: ShareUse | None
    """None if it was not measured."""


UseKey = tuple[str, str, int | None]
"""Namespace and pod, and the number of the GPU; None for all GPUs of the node."""


@dataclass(frozen=True, slots=True)
class PodUses:
    """What pods use on one node; nothing if that is not measured."""

    by_pod: Mapping[UseKey, ShareUse] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Numbers of the cards that its agent offers by DRA, by UUID."""

    def of(self, namespace: str, pod: str, gpu: int | None) -> ShareUse | None:
        """Return what a pod uses of one GPU, or of all (None)."""
        return self.by_pod.get((namespace, pod, gpu))

    def of_card(self, namespace: str, pod: str, uuid: str) -> ShareUse | None:
        """Return what a pod uses of a card that a DRA driver offers."""
        number = self.numbers.get(uuid)
        return self.of(namespace, pod, number) if number is not None else None


def by_pod(
    uses: Sequence[MeasuredUse], measured: str = "", *, is_cut: bool = False
) -> Mapping[UseKey, ShareUse]:
    """Return the use of pods on each GPU and on all, by what their containers used when it was `measured`.

    That is in RFC 3339, or empty if unknown. With `is_cut` there are more containers: some may be of the last
    pod, which may then not be idle.
    """
    found: defaultdict[UseKey, list[MeasuredUse]] = defaultdict(list)
    for use in uses:
        found[use.namespace, use.pod, use.gpu].append(use)
        found[use.namespace, use.pod, None].append(use)
    cut = (uses[-1].namespace, uses[-1].pod) if is_cut and uses else None
    return {key: _sum(each, measured if key[:2] != cut else "") for key, each in found.items()}


def _sum(uses: Sequence[MeasuredUse], measured: str) -> ShareUse:
    busy = [use.busy_percent for use in uses if use.busy_percent is not None]
    gpus = len({use.gpu for use in uses})
    return ShareUse(
        sum([use.memory_mib for use in uses]),
        sum([use.used_mib for use in uses]),
        sum([use.peak_mib for use in uses]),
        sum([use.p95_mib for use in uses]),
        min(_MAX_PERCENT, round(sum(busy) / gpus)) if len(busy) == len(uses) else None,
        max([use.since for use in uses]),
        _idle_seconds([use.idle_since for use in uses], measured),
    )


def _idle_seconds(idle: Sequence[str], measured: str) -> int | None:
    """Return how long all of several containers were idle, by the clock of their node."""
    now = seconds_of(measured)
    known = [each for each in map(seconds_of, idle) if each is not None]
    return max(0, now - max(known)) if now is not None and len(known) == len(idle) else None


def shares_in_use(node: NodeView, uses: PodUses) -> Iterator[UsedShare]:
    """Yield what bound pods hold of a node's GPUs, and of its cards by claims, with what they use of it."""
    size = GpuSize(node.slices_per_gpu)
    for gpu in node.gpus:
        for share in gpu.shares:
            if share.kind == "holder":
                namespace, pod = share.namespace, share.name
                use = uses.of(namespace, pod, gpu.index)
                yield UsedShare(node.name, gpu.name, namespace, pod, share.queue, share.slices, size, use)
    for card in node.cards:
        size = GpuSize(card.memory_mib, in_mib=True)
        for part in card.shares:
            if part.pod:
                namespace, pod, held = part.namespace, part.pod, part.memory_mib
                use = uses.of_card(namespace, pod, card.uuid)
                yield UsedShare(card.node, card.device, namespace, pod, part.queue, held, size, use)


def enough(held: int, size: GpuSize, use: ShareUse) -> int:
    """Return the smallest share of the same GPU whose memory would have held the peak of the share `held`."""
    amount = use.peak_mib if size.in_mib else -(-use.peak_mib * held // max(1, use.memory_mib))
    return max(1, min(amount, size.amount or amount))


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
    idle = f" No kernel ran for {idle_text(use.idle_seconds)}." if use.idle_seconds else ""
    return f"Of {whose} it uses {memory_text(use)}{busy}.{idle}"


def idle_text(seconds: int) -> str:
    """Return how long a share is idle, in minutes or hours."""
    minutes = seconds // _MINUTE
    return f"{minutes} min" if minutes < 2 * _MINUTE else f"{minutes // _MINUTE} h"


def seconds_of(text: str) -> int | None:
    """Return an RFC 3339 time in seconds since 1970; None if it cannot be read."""
    try:
        return int(datetime.fromisoformat(text).astimezone(UTC).timestamp())
    except (ValueError, OverflowError):  # an offset may lead out of the years 1 to 9999
        return None


def seconds_since(since: str, now: datetime) -> float:
    """Return how long ago an RFC 3339 time was; 0 for one that cannot be read, or is in the future."""
    then = seconds_of(since)
    return max(0.0, now.timestamp() - then) if then is not None else 0.0


def _period(since: str, now: datetime) -> str:
    """Return over which time GPU time was averaged."""
    seconds = seconds_since(since, now)
    return "in the last hour" if seconds >= HOUR_SECONDS else f"in the last {max(1, int(seconds) // 60)} min"
