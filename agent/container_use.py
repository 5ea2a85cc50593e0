"""What containers used of their shares since the agent first saw them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate

from agent.containers import ContainerName

MINUTES = 60
"""The time over which GPU time is averaged."""
STEPS = 100
"""Steps of a share in which the time at each amount of memory is counted."""
NEARLY_ALWAYS = 95
"""Per cent of the time."""
IDLE_SECONDS = 60
"""How long a container must have been idle until a report says so."""
GAP_SECONDS = 90
"""Time without a measurement after which it is unknown whether kernels ran, or the clock was set."""
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class SeenUse:
    """What a container uses of one GPU now."""

    name: ContainerName
    gpu: int
    memory_mib: int
    """MiB that it may use."""
    used_mib: int
    busy_percent: int | None
    """Part of the time since the last measurement; None if the driver does not say."""
    pod_uid: str = ""
    """Empty if unknown: none of its processes is on the GPU."""
    others_ran: bool = False
    """Whether a process that belongs to no known container ran kernels on the GPU: it may be this one's."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What a container has used of one GPU, for as long as it was watched."""

    name: ContainerName
    gpu: int
    memory_mib: int
    """MiB that it may use."""
    used_mib: int
    """Now."""
    peak_mib: int
    """The highest measured value."""
    p95_mib: int
    """At most this 95 % of the time, rounded up to a hundredth of the share."""
    busy_percent: int | None
    """Mean part of the time of the last hour; None if the driver does not say."""
    since: int
    """When it was first measured, in seconds since 1970."""
    idle_since: int | None = None
    """Since when no kernel was seen and its memory stayed the same; None if one was, or that is unknown."""

    def is_news_after(self, reported: ContainerUse) -> bool:
        """Whether it is worth another report: a steady program causes no write.

        Memory is news from 1/64 of the share on, time from two per cent on.
        """
        if (self.busy_percent is None) != (reported.busy_percent is None):
            return True
        step = max(1, self.memory_mib // 64)
        figures = {"used_mib": step, "peak_mib": step, "p95_mib": step, "busy_percent": 2}
        before = {name: getattr(reported, name) for name in figures}
        is_far = [
            abs((getattr(self, name) or 0) - (before[name] or 0)) >= least for name, least in figures.items()
        ]
        return any(is_far) or replace(self, **before) != reported


@dataclass(slots=True)
class _History:
    latest: SeenUse
    since: int
    pod_uid: str = ""
    measured: int = 0
    """When it was last measured."""
    idle_since: int | None = None
    peak_mib: int = 0
    at_steps: list[int] = field(default_factory=lambda: [0] * (STEPS + 1))
    """Number of measurements by used hundredths of the share, rounded up."""
    minutes: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=MINUTES))
    """(minute, sum of per cents, measurements)."""

    def add(self, seen: SeenUse, now: int) -> None:
        self.pod_uid = seen.pod_uid or self.pod_uid
        self._set_idle(seen, now)
        self.latest = seen
        self.peak_mib = max(self.peak_mib, seen.used_mib)
        self.at_steps[min(STEPS, -(-seen.used_mib * STEPS // max(1, seen.memory_mib)))] += 1
        if seen.busy_percent is None:
            return
        minute, before, count = now // _SECONDS, 0, 0
        if self.minutes and self.minutes[-1][0] == minute:
            _, before, count = self.minutes.pop()
        self.minutes.append((minute, before + min(100, seen.busy_percent), count + 1))

    def _set_idle(self, seen: SeenUse, now: int) -> None:
        """Note since when it is idle; changed memory is a sign of work that the driver's samples missed."""
        is_changed = self.latest.used_mib != seen.used_mib
        if seen.busy_percent != 0 or seen.others_ran or is_changed:
            self.idle_since = None
        elif self.idle_since is None or not 0 <= now - self.measured <= GAP_SECONDS:
            self.idle_since = now
        self.measured = now

    def at(self, now: int) -> ContainerUse:
        """Return the use until now, by the latest measurement."""
        is_idle = self.idle_since is not None and now - self.idle_since >= IDLE_SECONDS
        seen = self.latest
        return ContainerUse(
            seen.name,
            seen.gpu,
            seen.memory_mib,
            seen.used_mib,
            self.peak_mib,
            self._p95_mib(),
            self._busy_percent(now),
            self.since,
            self.idle_since if is_idle else None,
        )

    def _busy_percent(self, now: int) -> int | None:
        found = [each for each in self.minutes if each[0] > now // _SECONDS - MINUTES]
        count = sum(each[2] for each in found)
        return round(sum(each[1] for each in found) / count) if count else None

    def _p95_mib(self) -> int:
        wanted = -(-sum(self.at_steps) * NEARLY_ALWAYS // 100)
        step = next(step for step, count in enumerate(accumulate(self.at_steps)) if count >= wanted)
        return min(self.peak_mib, -(-self.latest.memory_mib * step // STEPS))


class UseHistory:
    """Remembers the use of the containers that hold shares, and forgets those that no longer do."""

    def __init__(self) -> None:
        self._known: dict[tuple[ContainerName, int], _History] = {}

    def update(
        self, seen: Iterable[SeenUse], holders: Collection[tuple[ContainerName, int]], now: int
    ) -> list[ContainerUse]:
        """Add one measurement, and return the use of all holders that were ever measured.

        Args:
            seen: what containers use, as far as it is known now.
            holders: all containers with a share, and the number of its GPU.
            now: seconds since 1970.
        """
        measured = set()
        for each in seen:
            self._add(each, now)
            measured.add((each.name, each.gpu))
        self._known = {key: known for key, known in self._known.items() if key in holders}
        self._forget_idle(
            {(name.namespace, name.pod) for name, gpu in holders if (name, gpu) not in measured}
        )
        return [known.at(now) for known in self._known.values()]

    def _forget_idle(self, pods: Collection[tuple[str, str]]) -> None:
        """Forget that pods are idle: a container of theirs was not measured, and may have worked."""
        for (name, _), known in self._known.items():
            if (name.namespace, name.pod) in pods:
                known.idle_since = None

    def _add(self, seen: SeenUse, now: int) -> None:
        key = seen.name, seen.gpu
        known = self._known.get(key)
        if known is None or (seen.pod_uid and known.pod_uid not in {"", seen.pod_uid}):
            known = self._known[key] = _History(seen, now)
        known.add(seen, now)
