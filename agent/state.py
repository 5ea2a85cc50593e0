"""The agent's current state: its GPUs, which of them are unhealthy and why, and what is registered.

One event loop owns it. To follow it, await `next_version` and read the whole state again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.container_use import ContainerUse
from agent.gpu import Gpu

IDLE_REPORT_SECONDS = 60
"""How often the time of the last measurement is reported while a container is idle: readers act on a report
only while it is young."""
HELD = "held"
"""State of limits by the driver: containers that start now are limited."""


@dataclass(frozen=True, slots=True)
class Held:
    """Slices of one GPU that the kubelet has allocated, and the number of their pods."""

    slices: int = 0
    pods: int = 0


@dataclass(frozen=True, slots=True)
class Unlimited:
    """A container with a limited share, with programs on the GPU that have no limiter loaded."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    container_id: str
    gpu: int
    memory_mib: int
    """MiB of its share."""


class AgentState:
    """The GPUs that are offered, their health, and their registrations.

    Args:
        gpus: the shared GPUs, without GPUs in MIG mode and whole ones.
    """

    _FOLLOWED = frozenset({"elsewhere", "resized", "held", "unlimited", "driver_limits"})
    """To set another value of these is a change."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self.elsewhere: Mapping[str, str] = {}
        """Why a GPU is withdrawn by UUID: another plugin also offers it, or gave it to a pod."""
        self.resized: Mapping[str, str] = {}
        """Why a GPU is withdrawn by UUID: containers hold slices of another size."""
        self.held: Mapping[str, Held] | None = None
        """Allocated slices by UUID; None while the kubelet does not report them."""
        self.unlimited: Sequence[Unlimited] | None = None
        """Containers with programs that run without their limiter; None if that is unknown."""
        self.driver_limits: str | None = None
        """`HELD`, or why the driver does not limit shares as requested; None if it is not asked to."""
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._unhealthy: dict[str, str] = {}
        self._registrations: dict[str, str | None] = {}
        """Why the kubelet does not count the slices of a resource; None while it does."""
        self.uses: Sequence[ContainerUse] | None = None
        """What containers have used of their shares; None if that is unknown."""
        self.uses_measured: int | None = None
        """When `uses` were measured, as last reported, in seconds since 1970; None if nothing is measured."""
        self._reported_uses: Sequence[ContainerUse] | None = None
        """What was reported of them."""
        self.registrations = 0
        """Number of successful registrations."""
        self.version = 0
        """Increases with every change."""
        self._changed = asyncio.Event()

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; tell of a change."""
        is_changed = name in self._FOLLOWED and value != getattr(self, name, value)
        super().__setattr__(name, value)
        if is_changed:
            self.say_changed()

    @property
    def gpus(self) -> Sequence[Gpu]:
        """The GPUs that are offered, by index."""
        return list(self._gpus.values())

    @property
    def unhealthy(self) -> Mapping[str, str]:
        """Why new pods cannot get a GPU, by UUID; only such GPUs."""
        return {**self.resized, **self.elsewhere, **self._unhealthy}

    @property
    def missing(self) -> str | None:
        """Why the node cannot take pods with shares yet; None when the kubelet counts every resource.

        Also None for a node without a shared GPU.
        """
        if not self._gpus:
            return None
        if not self._registrations:
            return "no GPU is offered yet"
        lacking = [
            f"{name}: {missing}" for name, missing in self._registrations.items() if missing is not None
        ]
        return "; ".join(lacking) or None

    def find(self, uuid: str) -> Gpu | None:
        """Return an offered GPU by its UUID; None if it is not offered."""
        return self._gpus.get(uuid)

    def mark(self, uuid: str, why: str | None) -> bool:
        """Set why a GPU is unhealthy, None if it is well; return whether that is new."""
        if self._unhealthy.get(uuid) == why:
            return False
        self._unhealthy = {key: each for key, each in self._unhealthy.items() if key != uuid}
        self._unhealthy |= {uuid: why} if why is not None else {}
        self.say_changed()
        return True

    def set_uses(self, found: Sequence[ContainerUse] | None, now: int) -> None:
        """Set what containers have used of their shares by `now`, in seconds since 1970.

        Only what has moved is a change; while a container is idle, so is each minute.
        """
        self.uses = found
        if self._is_news(found) or self._is_idle_report_due(now):
            self._reported_uses = found
            self.uses_measured = now if found is not None else None
            self.say_changed()

    def _is_news(self, found: Sequence[ContainerUse] | None) -> bool:
        before = self._reported_uses
        if found is None or before is None or len(found) != len(before):
            return found != before
        return any(use.is_news_after(reported) for use, reported in zip(found, before, strict=True))

    def _is_idle_report_due(self, now: int) -> bool:
        is_any_idle = any(use.idle_since is not None for use in self.uses or ())
        return is_any_idle and abs(now - (self.uses_measured or 0)) >= IDLE_REPORT_SECONDS

    def set_registration(self, resource: str, missing: str | None) -> None:
        """Set why the kubelet does not count the slices of a resource; None while it does."""
        if self._registrations.get(resource, "") != missing:
            self._registrations[resource] = missing
            self.registrations += missing is None
            self.say_changed()

    async def until_served(self, seconds: float | None = None) -> None:
        """Wait until nothing is missing, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.missing is not None:
                    await self.next_version(self.version)

    async def next_version(self, seen: int) -> int:
        """Wait until the state is newer than this version, and return the new version."""
        while self.version == seen:
            await self._changed.wait()
        return self.version

    def say_changed(self) -> None:
        """Tell all who wait that something is new."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()
