"""The GPUs of a node, and what their driver says of them."""

from __future__ import annotations

from dataclasses import dataclass

from modes.mig_profiles import MigProfile


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU."""

    index: int
    """NVML's number of the GPU on its node, the one in nvidia.com/gpu-<index>."""
    uuid: str
    model: str
    memory_mib: int
    """All of its memory, rounded down, as in the label nvidia.com/gpu.memory."""
    numa_node: int | None = None
    """The kernel's number of its NUMA node; None if unknown."""
    mig: bool = False
    """Whether it is in MIG mode: its memory is partitioned, and it has no slices."""
    reserved_mib: int = 0
    """Memory that the driver reserves, rounded up: programs cannot use it."""
    minor: int | None = None
    """Number of its device node; None if the driver does not state it."""
    mig_profiles: tuple[MigProfile, ...] = ()
    """Instances that it can be divided into, if it is in MIG mode and the driver states them."""
    bus: str | None = None
    """PCI slot, as the kernel writes it; None if unknown, like all that follows."""
    architecture: str | None = None
    """In the words of NVIDIA's DRA driver, such as Ampere; Unknown for one that the bindings do not know."""
    compute_capability: tuple[int, int] | None = None
    driver_version: str | None = None
    """As the driver writes it, such as 595.71.05."""

    @property
    def usable_mib(self) -> int:
        """MiB that all programs together can use."""
        return self.memory_mib - self.reserved_mib


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """An event of a GPU that the driver reported."""

    uuid: str | None
    """None if the driver named no GPU."""
    xid: int
    """NVIDIA's error number."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What a process uses of one GPU."""

    pid: int
    """Process ID on the node."""
    used_mib: int
    """Of the GPU's memory."""
    busy_percent: int | None = None
    """Part of the time since the last question that its kernels ran, by the driver; None if unknown."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Memory and compute of a GPU that are in use now."""

    used_mib: int
    utilisation_percent: int
    processes: tuple[ProcessUse, ...] = ()
    knows_busy_processes: bool = False
    """Whether the driver reports the time of processes: then one that it leaves out used none."""
    others_ran: bool = False
    """Whether others than `processes`, such as ended ones, ran kernels since the last question."""


@dataclass(frozen=True, slots=True)
class GpuCondition:
    """Whether a GPU answers, and which recovery its driver asks for."""

    answers: bool
    recovery: str | None = None
    """What must be done before the GPU can be used again, such as a reset; None for nothing."""
    mig: bool = False
    """Whether it is in MIG mode, in which it has no slices."""
    tells_xids: bool = True
    """Whether its driver reports its errors."""
    watch_error: str | None = None
    """Why its errors cannot be watched; None if they can, or if driver or card have no such events."""

    @property
    def needs_recovery(self) -> bool:
        """Whether it must return, or be recovered, before it can be used."""
        return not self.answers or self.recovery is not None

    @property
    def why_unhealthy(self) -> str | None:
        """Why new pods cannot get it; None if they can."""
        if not self.answers:
            return "it does not answer"
        if self.recovery is not None:
            return f"its driver asks for: {self.recovery}"
        if self.mig:
            return "it is in MIG mode"
        return f"its errors cannot be watched: {self.watch_error}" if self.watch_error is not None else None


class GpuSourceError(Exception):
    """The driver did not answer, or returned an error; the text says which."""
