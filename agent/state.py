"""What the agent knows at this moment: its GPUs, which of them are unhealthy and why, and what is registered.

One event loop owns it. Whoever follows it awaits `next_version` and reads the whole state again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.gpu import Gpu

HELD = "held"
"""Of limits by the driver: containers that start are held to their shares."""


@dataclass(frozen=True, slots=True)
class Registration:
    """How a resource name stands with the kubelet."""

    resource: str
    missing: str | None = "not registered with the kubelet yet"
    """Why the kubelet does not count its slices; None while it does."""


@dataclass(frozen=True, slots=True)
class Held:
    """What containers hold of one GPU by the kubelet's books."""

    slices: int = 0
    pods: int = 0


@dataclass(frozen=True, slots=True)
class Unlimited:
    """A container whose share is limited, with programs on the GPU that have no limiter loaded."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    container_id: str
    gpu: int
    memory_mib: int
    """Of its share."""


class AgentState:
    """The GPUs that are offered, their health, and their registrations.

    Args:
        gpus: those that are shared; GPUs in MIG mode, and those that stay whole, are left out.
    """

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._unhealthy: dict[str, str] = {}
        self._elsewhere: Mapping[str, str] = {}
        self._registrations: dict[str, Registration] = {}
        self._held: Mapping[str, Held] | None = None
        self._withheld: frozenset[str] = frozenset()
        self._unlimited: tuple[Unlimited, ...] | None = None
        self._driver_limits: str | None = None
        self.registrations = 0
        """How often the kubelet took a resource."""
        self._version = 0
        self._changed = asyncio.Event()

    @property
    def gpus(self) -> Sequence[Gpu]:
        """The GPUs that are offered, by index."""
        return list(self._gpus.values())

    @property
    def unhealthy(self) -> Mapping[str, str]:
        """Why a GPU is unhealthy, or not ours alone, by uuid; others are not in it."""
        return {**self._elsewhere, **self._unhealthy}

    @property
    def elsewhere(self) -> Mapping[str, str]:
        """By uuid why a GPU is not ours alone."""
        return self._elsewhere

    @property
    def held(self) -> Mapping[str, Held] | None:
        """What containers hold by the kubelet's books, by uuid; None while they cannot be read."""
        return self._held

    @property
    def withheld(self) -> frozenset[str]:
        """Device ids that no new pod may get, though their GPU is healthy."""
        return self._withheld

    @property
    def unlimited(self) -> Sequence[Unlimited] | None:
        """Containers with programs on a GPU that their limiter does not limit; None where nobody can tell."""
        return self._unlimited

    @property
    def driver_limits(self) -> str | None:
        """`HELD`, or why the driver does not hold shares; None where it is not asked to."""
        return self._driver_limits

    @property
    def missing(self) -> str | None:
        """Why the node must not take pods with shares yet; None once the kubelet counts every resource.

        A node without a GPU to share lacks nothing.
        """
        if not self._gpus:
            return None
        if not self._registrations:
            return "no GPU is offered yet"
        lacking = [each for each in self._registrations.values() if each.missing is not None]
        return "; ".join(f"{each.resource}: {each.missing}" for each in lacking) or None

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._version

    def find(self, uuid: str) -> Gpu | None:
        """Return an offered GPU; None where there is none of the name."""
        return self._gpus.get(uuid)

    def mark_unhealthy(self, uuid: str, why: str) -> None:
        """Note why a GPU may not be given to new pods."""
        if self._unhealthy.get(uuid) != why:
            self._unhealthy[uuid] = why
            self._say_changed()

    def mark_healthy(self, uuid: str) -> None:
        """Note that a GPU is well again."""
        if self._unhealthy.pop(uuid, None) is not None:
            self._say_changed()

    def set_elsewhere(self, reasons: Mapping[str, str]) -> None:
        """Note which GPUs another device plugin offers too, or gave to a pod that runs: why, by uuid."""
        if self._elsewhere != reasons:
            self._elsewhere = reasons
            self._say_changed()

    def set_held(self, held: Mapping[str, Held] | None) -> None:
        """Note what containers hold."""
        if self._held != held:
            self._held = held
            self._say_changed()

    def set_withheld(self, ids: frozenset[str]) -> None:
        """Note which slices are kept from new pods."""
        if self._withheld != ids:
            self._withheld = ids
            self._say_changed()

    def set_unlimited(self, found: Sequence[Unlimited] | None) -> None:
        """Note which containers run programs without their limiter; None where nobody can tell."""
        known = tuple(found) if found is not None else None
        if self._unlimited != known:
            self._unlimited = known
            self._say_changed()

    def set_driver_limits(self, what: str) -> None:
        """Note whether the driver holds shares, as it was asked to: `HELD`, or why it does not."""
        if self._driver_limits != what:
            self._driver_limits = what
            self._say_changed()

    def set_registration(self, resource: str, missing: str | None) -> None:
        """Note how a resource stands with the kubelet."""
        registration = Registration(resource, missing)
        if self._registrations.get(resource) != registration:
            self._registrations[resource] = registration
            self.registrations += missing is None
            self._say_changed()

    async def until_served(self, seconds: float | None = None) -> None:
        """Wait until nothing is missing, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.missing is not None:
                    await self.next_version(self._version)

    async def next_version(self, seen: int) -> int:
        """Wait until the state is newer than the version that was seen last, and return its version."""
        while self._version == seen:
            await self._changed.wait()
        return self._version

    def _say_changed(self) -> None:
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()
