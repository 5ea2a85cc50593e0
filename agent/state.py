"""The agent's current state: its GPUs, which of them are unhealthy and why, and what is registered.

One event loop owns it. To follow it, await `next_version` and read the whole state again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.container_use import ContainerUse, has_moved
from agent.gpu import Gpu

IDLE_REPORT_SECONDS = 60
"""How often the time of the last measurement is reported while a container is idle: readers act on a report
only while it is young."""
HELD = "held"
"""State of limits by the driver: containers that start now are limited."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of a resource with the kubelet."""

    resource: str
    missing: str | None = "not registered with the kubelet yet"
    """Why the kubelet does not count its slices; None while it does."""


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

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._unhealthy: dict[str, str] = {}
        self._elsewhere: Mapping[str, str] = {}
        self._registrations: dict[str, Registration] = {}
        self._held: Mapping[str, Held] | None = None
        self._withheld: frozenset[str] = frozenset()
        self._unlimited: tuple[Unlimited, ...] | None = None
        self._uses: tuple[ContainerUse, ...] | None = None
        self._stated_uses: tuple[ContainerUse, ...] | None = None
        """The uses of the last change."""
        self._uses_measured: int | None = None
        self._driver_limits: str | None = None
        self.registrations = 0
        """Number of successful registrations."""
        self._version = 0
        self._changed = asyncio.Event()

    @property
    def gpus(self) -> Sequence[Gpu]:
        """The GPUs that are offered, by index."""
        return list(self._gpus.values())

    @property
    def unhealthy(self) -> Mapping[str, str]:
        """Why a GPU is unhealthy, or also has another plugin, by UUID; only such GPUs."""
        return {**self._elsewhere, **self._unhealthy}

    @property
    def elsewhere(self) -> Mapping[str, str]:
        """Why a GPU is withdrawn because of another plugin, by UUID."""
        return self._elsewhere

    @property
    def held(self) -> Mapping[str, Held] | None:
        """Allocated slices by UUID; None while the kubelet does not report them."""
        return self._held

    @property
    def withheld(self) -> frozenset[str]:
        """Device IDs that no new pod can get, although their GPU is healthy."""
        return self._withheld

    @property
    def unlimited(self) -> Sequence[Unlimited] | None:
        """Containers with programs that run without their limiter; None if that is unknown."""
        return self._unlimited

    @property
    def uses(self) -> Sequence[ContainerUse] | None:
        """What containers have used of their shares; None if that is unknown."""
        return self._uses

    @property
    def uses_measured(self) -> int | None:
        """When `uses` were measured, as last reported, in seconds since 1970; None if nothing is measured."""
        return self._uses_measured

    @property
    def driver_limits(self) -> str | None:
        """`HELD`, or why the driver does not limit shares; None if it is not asked to."""
        return self._driver_limits

    @property
    def missing(self) -> str | None:
        """Why the node cannot take pods with shares yet; None when the kubelet counts every resource.

        Also None for a node without a shared GPU.
        """
        if not self._gpus:
            return None
        if not self._registrations:
            return "no GPU is offered yet"
        lacking = [each for each in self._registrations.values() if each.missing is not None]
        return "; ".join(f"{each.resource}: {each.missing}" for each in lacking) or None

    @property
    def version(self) -> int:
        """Increases with every change."""
        return self._version

    def find(self, uuid: str) -> Gpu | None:
        """Return an offered GPU by its UUID; None if it is not offered."""
        return self._gpus.get(uuid)

    def mark_unhealthy(self, uuid: str, why: str) -> None:
        """Set why new pods cannot get a GPU."""
        if self._unhealthy.get(uuid) != why:
            self._unhealthy[uuid] = why
            self._say_changed()

    def mark_healthy(self, uuid: str) -> None:
        """Mark a GPU as healthy again."""
        if self._unhealthy.pop(uuid, None) is not None:
            self._say_changed()

    def set_elsewhere(self, reasons: Mapping[str, str]) -> None:
        """Set why GPUs are withdrawn, by UUID: another plugin also offers them, or gave them to a pod."""
        if self._elsewhere != reasons:
            self._elsewhere = reasons
            self._say_changed()

    def set_held(self, held: Mapping[str, Held] | None) -> None:
        """Set the slices that containers hold of each GPU."""
        if self._held != held:
            self._held = held
            self._say_changed()

    def set_withheld(self, ids: frozenset[str]) -> None:
        """Set the slices that new pods cannot get."""
        if self._withheld != ids:
            self._withheld = ids
            self._say_changed()

    def set_unlimited(self, found: Sequence[Unlimited] | None) -> None:
        """Set the containers with programs that run without their limiter; None if that is unknown."""
        known = tuple(found) if found is not None else None
        if self._unlimited != known:
            self._unlimited = known
            self._say_changed()

    def set_uses(self, found: Sequence[ContainerUse] | None, now: int) -> None:
        """Set what containers have used of their shares by `now`, in seconds since 1970.

        Only what has moved is a change; while a container is idle, so is each minute.
        """
        self._uses = tuple(found) if found is not None else None
        if has_moved(self._stated_uses, self._uses) or self._is_idle_report_due(now):
            self._stated_uses = self._uses
            self._uses_measured = now if found is not None else None
            self._say_changed()

    def _is_idle_report_due(self, now: int) -> bool:
        is_any_idle = any(use.idle_since is not None for use in self._uses or ())
        return is_any_idle and abs(now - (self._uses_measured or 0)) >= IDLE_REPORT_SECONDS

    def set_driver_limits(self, what: str) -> None:
        """Set whether the driver limits shares as requested: `HELD`, or why it does not."""
        if self._driver_limits != what:
            self._driver_limits = what
            self._say_changed()

    def set_registration(self, resource: str, missing: str | None) -> None:
        """Set the registration of a resource."""
        registration = Registration(resource, missing)
        if self._registrations.get(resource) != registration:
            self._registrations[resource] = registration
            self.registrations += missing is None
            self._say_changed()

    async def until_served(self, seconds: float | None = None) -> None:
        """Wait until nothing is missing, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.missing is not None:
                    await self.next_version(self._version)

    async def next_version(self, seen: int) -> int:
        """Wait until the state is newer than this version, and return the new version."""
        while self._version == seen:
            await self._changed.wait()
        return self._version

    def _say_changed(self) -> None:
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()
