"""The cards of a node as the library in `nvml/` reads them, and the file that says so.

Lines of the file are a key, a space and a value; those after `card` belong to it. `event` lines are read in
their order, once each, by sets that were made before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SAMPLES_OF_OLD, SAMPLES_OF_NEW = 1, 2
"""`nvmlDeviceGetProcessUtilization` and `nvmlDeviceGetProcessesUtilizationInfo`."""
NONE_WITHOUT_ERROR = 4
"""Both answer with success, and no samples, where there are none."""
LIMITS_OFFERED = 6
"""What reading the limits of a control group returns where a driver knows limits and this one has none."""
LIMITS_UNKNOWN = 13
"""The same of a driver before 615, whose library lacks the function."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process on a card; `used_mib` is None where the driver keeps it to itself.

    Attributes:
        pid: On the node.
        used_mib: Of the card's memory.
        busy_percent: Of the time since the driver was asked before; None of a process that did not run.
        sampled_at: When that was measured, in microseconds since 1970; None for always now.
    """

    pid: int
    used_mib: int | None
    busy_percent: int | None = None
    sampled_at: int | None = None

    def line(self) -> str:
        """Return its line of the file."""
        given = (self.pid, -1 if self.used_mib is None else self.used_mib, self.busy_percent, self.sampled_at)
        return f"process {' '.join(str(each) for each in given if each is not None)}"


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance with one compute instance of the same size."""

    uuid: str
    gpu_instance: int
    slices: int
    memory_mib: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Card:
    """One card.

    Attributes:
        uuid: As NVML writes it.
        name: The model.
        minor: Number of its device node; its PCI slot follows from it.
        memory_mib: All of it, with what the driver keeps.
        reserved_mib: What the driver keeps.
        used_mib: By programs.
        busy_percent: Of the time.
        capability: To compute, such as 8.0.
        pci: Number of the model on the bus.
        mig: Whether it is in MIG mode; None where it has none.
        instances: In MIG mode.
        recovery: NVML's number of what the driver asks for; None of a driver that does not say.
        processes: That run on it.
        samples: Which functions tell how busy each process keeps it: `SAMPLES_OF_OLD`, `SAMPLES_OF_NEW`, both
            (their sum), or none; with `NONE_WITHOUT_ERROR` added they answer so.
        lost: Whether it fell off the bus.
        events: What registering for its events returns, as NVML's number.
    """

    uuid: str
    name: str = "NVIDIA A100-SXM4-40GB"
    minor: int = 0
    memory_mib: int = 40960
    reserved_mib: int = 0
    used_mib: int = 0
    busy_percent: int = 0
    capability: str = "8.0"
    pci: int = 0x20B0
    mig: bool | None = False
    instances: tuple[MigInstance, ...] = ()
    recovery: int | None = 0
    processes: tuple[RunningProcess, ...] = ()
    samples: int = SAMPLES_OF_OLD + SAMPLES_OF_NEW
    lost: bool = False
    events: int = 0

    @property
    def bus(self) -> str:
        """Its PCI slot, as the kernel writes it."""
        return f"0000:{0x10 + self.minor:02x}:00.0"

    def lines(self) -> Iterator[str]:
        """Return its part of the file."""
        yield "card"
        yield f"uuid {self.uuid}"
        yield f"name {self.name}"
        yield f"minor {self.minor}"
        yield f"bus {self.bus}"
        yield f"pci {self.pci:x}"
        yield f"memory {self.memory_mib} {self.reserved_mib} {self.used_mib}"
        yield f"busy {self.busy_percent}"
        yield f"capability {self.capability}"
        yield f"recovery {'unknown' if self.recovery is None else self.recovery}"
        if self.mig is not None:
            yield f"mig {int(self.mig)}"
        yield f"samples {self.samples}"
        if self.lost:
            yield "lost"
        if self.events:
            yield f"events {self.events}"
        for process in self.processes:
            yield process.line()
        for each in self.instances:
            yield (f"instance {each.uuid} {each.gpu_instance} 0 {each.start} {each.slices} {each.memory_mib}")


@dataclass(frozen=True, slots=True)
class Xid:
    """Something that the driver says of a card."""

    uuid: str
    xid: int


@dataclass(frozen=True, slots=True)
class WaitError:
    """Waiting for events ends with one of NVML's errors."""

    number: int


@dataclass(frozen=True, slots=True)
class NvmlNode:
    """All that the library knows.

    Attributes:
        cards: By NVML's index.
        events: In the order in which they happened.
        driver: Its version.
        cuda: The newest CUDA that it runs, as NVML writes it.
        limits: What reading the memory limits of a control group returns.
    """

    cards: tuple[Card, ...]
    events: tuple[Xid | WaitError, ...] = ()
    driver: str = "595.71.05"
    cuda: int = 13020
    limits: int = LIMITS_UNKNOWN

    def write(self, file: Path) -> None:
        """Write the file as a whole."""
        lines = [f"driver {self.driver}", f"cuda {self.cuda}", f"limits {self.limits}"]
        lines += [line for card in self.cards for line in card.lines()]
        lines += [
            f"event {event.uuid} {event.xid}" if isinstance(event, Xid) else f"failure {event.number}"
            for event in self.events
        ]
        fresh = file.with_name(f"{file.name}.fresh")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.rename(file)
