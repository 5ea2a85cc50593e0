"""The GPUs of a node, and what an agent asks their driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU."""

    index: int
    """NVML's number of the GPU on its node, the one in nvidia.com/gpu-<index>."""
    uuid: str
    model: str
    memory_mib: int
    """All of its memory, rounded down, as the label nvidia.com/gpu.memory has it."""
    numa_node: int | None = None
    """Of the machine's, as the kernel numbers them; None where it does not say."""
    mig: bool = False
    """Whether it is in MIG mode: its memory is partitioned, and it is not ours to share."""
    reserved_mib: int = 0
    """What the driver keeps of its memory, rounded up: no program gets it."""
    minor: int | None = None
    """Number of its device node; None where the driver does not say."""

    @property
    def usable_mib(self) -> int:
        """MiB that programs can have together."""
        return self.memory_mib - self.reserved_mib


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """Something that the driver said of a GPU."""

    uuid: str | None
    """None where the driver named no GPU."""
    xid: int
    """NVIDIA's number of the error."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Memory that one process holds on one GPU."""

    pid: int
    """As the host counts processes."""
    used_mib: int


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What runs on a GPU at this moment."""

    used_mib: int
    utilisation_percent: int
    processes: tuple[ProcessUse, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuCondition:
    """Whether a GPU answers, and what its driver wants done."""

    answers: bool
    recovery: str | None = None
    """What the driver asks for before the GPU may be used again, such as a reset; None for nothing."""
    mig: bool = False
    """Whether it is in MIG mode, in which slices of it are none."""
    tells_xids: bool = True
    """Whether its driver tells of its errors."""
    watch_error: str | None = None
    """Why its errors cannot be watched, other than that driver or card have no such events."""

    @property
    def needs_recovery(self) -> bool:
        """Whether it has to come back, or something has to be done, before it may be used."""
        return not self.answers or self.recovery is not None

    @property
    def why_unhealthy(self) -> str | None:
        """Why it may not be given to new pods; None if it may."""
        if not self.answers:
            return "it does not answer"
        if self.recovery is not None:
            return f"its driver asks for: {self.recovery}"
        if self.mig:
            return "it is in MIG mode"
        return f"its errors cannot be watched: {self.watch_error}" if self.watch_error is not None else None


class GpuSourceError(Exception):
    """The driver did not answer, or answered with an error; the text says which."""


class GpuSource(Protocol):
    """A way to the GPUs of this node. Every method may block and is called from a thread."""

    def list_gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs by index, those in MIG mode included.

        Raises:
            GpuSourceError: there is no way to tell.
        """

    def wait_for_event(self, seconds: float) -> HealthEvent | None:
        """Return the next event, or None if there was none for so long.

        Raises:
            GpuSourceError: waiting failed, which says nothing about any GPU.
        """

    def condition_of(self, uuid: str) -> GpuCondition:
        """Return the condition of a GPU; one that the driver cannot reach does not answer."""

    def use_of(self, uuid: str) -> GpuUse:
        """Return what runs on a GPU.

        Raises:
            GpuSourceError: the GPU, or the driver, does not answer.
        """

    def why_no_driver_limits(self) -> str | None:
        """Return why the driver cannot hold containers to memory of each GPU; None where it can.

        It is asked of all GPUs that `list_gpus` returned, but for those in MIG mode.
        """

    def close(self) -> None:
        """Let go of the driver."""
