"""GPUs that are made up in a JSON file: for tests, and for machines without GPUs.

The file is read again whenever it changes. It holds `gpus` (each with index, uuid, model, memoryMiB, and if
wanted numaNode, mig, lost, recovery, usedMiB, utilisationPercent and processes), `events` (each with uuid
and xid), and `driverLimits` if the driver can limit containers. Events are returned in their order, once
each; those that stand in the file at the start are old.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from agent.gpu import Gpu, GpuCondition, GpuSourceError, GpuUse, HealthEvent, ProcessUse

_POLL_SECONDS = 0.05


class _Process(msgspec.Struct, rename={"used_mib": "usedMiB"}, forbid_unknown_fields=True):
    pid: int
    used_mib: int


class _Gpu(
    msgspec.Struct,
    rename={
        "memory_mib": "memoryMiB",
        "numa_node": "numaNode",
        "used_mib": "usedMiB",
        "utilisation_percent": "utilisationPercent",
    },
    forbid_unknown_fields=True,
):
    index: int
    uuid: str
    model: str
    memory_mib: int
    numa_node: int | None = None
    mig: bool = False
    lost: bool = False
    recovery: str | None = None
    used_mib: int = 0
    utilisation_percent: int = 0
    processes: list[_Process] = []


class _Event(msgspec.Struct, forbid_unknown_fields=True):
    xid: int
    uuid: str | None = None


class _File(msgspec.Struct, rename={"driver_limits": "driverLimits"}, forbid_unknown_fields=True):
    gpus: list[_Gpu]
    events: list[_Event] = []
    driver_limits: bool = False


class GpuFile:
    """A GpuSource that believes a file.

    Raises:
        GpuSourceError: the file cannot be read or is not of its form; the message says where.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._content = _File([])
        self._told = len(self._read().events)

    def list_gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs of the file."""
        gpus = [
            Gpu(gpu.index, gpu.uuid, gpu.model, gpu.memory_mib, gpu.numa_node, gpu.mig)
            for gpu in self._read().gpus
        ]
        return tuple(sorted(gpus, key=lambda gpu: gpu.index))

    def wait_for_event(self, seconds: float) -> HealthEvent | None:
        """Return the next event that was added to the file."""
        end = time.monotonic() + seconds
        while True:
            events = self._read().events
            if len(events) > self._told:
                event = events[self._told]
                self._told += 1
                return HealthEvent(event.uuid, event.xid)
            if time.monotonic() >= end:
                return None
            time.sleep(min(_POLL_SECONDS, seconds))

    def condition_of(self, uuid: str) -> GpuCondition:
        """Return what the file says of a GPU; one that it no longer names is lost."""
        gpu = self._find(uuid)
        return (
            GpuCondition(answers=False)
            if gpu is None or gpu.lost
            else GpuCondition(answers=True, recovery=gpu.recovery, mig=gpu.mig)
        )

    def use_of(self, uuid: str) -> GpuUse:
        """Return what the file says runs on a GPU."""
        gpu = self._find(uuid)
        if gpu is None or gpu.lost:
            raise GpuSourceError(f"{uuid} does not answer")
        processes = tuple(ProcessUse(process.pid, process.used_mib) for process in gpu.processes)
        return GpuUse(gpu.used_mib, gpu.utilisation_percent, processes)

    def why_no_driver_limits(self) -> str | None:
        """Return that there is no driver, unless the file makes up one that limits."""
        return None if self._read().driver_limits else "the GPUs are made up"

    def close(self) -> None:
        """Hold nothing open, so that there is nothing to close."""

    def _find(self, uuid: str) -> _Gpu | None:
        return next((gpu for gpu in self._read().gpus if gpu.uuid == uuid), None)

    def _read(self) -> _File:
        try:
            status = self._path.stat()
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            if stamp != self._stamp:
                self._content = msgspec.json.decode(self._path.read_bytes(), type=_File)
                self._stamp = stamp
        except (OSError, msgspec.MsgspecError) as error:
            raise GpuSourceError(f"{self._path}: {error}") from error
        return self._content
