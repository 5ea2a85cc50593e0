"""The GPUs of NVIDIA's driver, through NVML. No other module imports its bindings."""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pynvml as nvml

from agent.gpu import Gpu, GpuCondition, GpuSourceError, GpuUse, HealthEvent, ProcessUse
from modes.mig_profiles import MigProfile, name_of
from service.log import get_logger

_MIB = 1024 * 1024
_LIBRARY = "libnvidia-ml.so.1"
_LIBRARY_FOLDERS = ("usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64")
WAITS_UNTIL_TRIED = 30
"""Number of waits after which GPUs whose events could not be watched are tried again."""
_RECOVERIES = {
    nvml.NVML_GPU_RECOVERY_ACTION_NONE: None,
    nvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "reset of the GPU",
    nvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "reboot of the node",
    nvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: "drain of peer-to-peer traffic",
    nvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "drain and reset of the GPU",
}
_ARCHITECTURES = {
    nvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
    nvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
    nvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
    nvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
    nvml.NVML_DEVICE_ARCH_TURING: "Turing",
    nvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    nvml.NVML_DEVICE_ARCH_ADA: "Ada Lovelace",
    nvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    nvml.NVML_DEVICE_ARCH_BLACKWELL: "Blackwell",
}
"""Names as NVIDIA's go-nvlib writes them."""
_NO_SAMPLES = (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_SUCCESS)
"""Answers that no process ran; `pynvml` raises also success where a driver has no samples."""
FIRST_SAMPLES_MICROSECONDS = 60_000_000
"""How far the first question about the use by processes looks back."""
_MAX_PERCENT = 100
_WITH_MEDIA = nvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, nvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1
"""Profiles with the media engines that only one instance can have."""
Answer = TypeVar("Answer")


class Nvml:
    """Access to the GPUs of this node, which are watched for events from the start.

    Every method may block and is called from a thread.

    Args:
        pci_devices: the kernel's folder of PCI devices, for NUMA nodes.
        cgroups: control groups of the node, for limits by the driver.
        driver_root: where to look for the driver's library if no runtime put it into this container.
        unified_mib: MiB of GPUs without memory of their own; 0 if there are none.

    Raises:
        GpuSourceError: the driver or its library is missing; the message says which.
    """

    def __init__(
        self,
        pci_devices: Path = Path("/sys/bus/pci/devices"),
        cgroups: Path = Path("/sys/fs/cgroup"),
        driver_root: str = "/",
        unified_mib: int = 0,
    ) -> None:
        _load_below(Path(driver_root))
        _asked(nvml.nvmlInit)
        self._pci_devices = pci_devices
        self._cgroups = cgroups
        self._unified_mib = unified_mib
        self._waiting = threading.Lock()
        """Held while a thread waits: freeing a set of events meanwhile may crash the process."""
        self._events: Any = None
        self._unwatched: dict[str, str | None] = {}
        """GPUs whose Xids are not seen, by UUID: the reason, or None if the driver has no such events."""
        self._waits = 0
        with contextlib.suppress(GpuSourceError):  # `wait_for_event` reports the reason
            self._events = self._watch_events()
        self._known: dict[int, Gpu] = {}
        self._sampled: dict[str, int] = {}
        """When a GPU's processes were last asked for, by UUID, in microseconds since 1970."""
        self._log = get_logger("nvml")

    def list_gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs by index, also those in MIG mode, and those that were lost since the start.

        A GPU that was lost before the start has neither UUID nor memory, and is left out.

        Raises:
            GpuSourceError: the driver does not answer, or none of its GPUs has ever answered.
        """
        lost: GpuSourceError | None = None
        for index in range(_asked(nvml.nvmlDeviceGetCount)):
            try:
                self._known[index] = self._gpu(index)
            except GpuSourceError as error:
                if index not in self._known:
                    self._log.error(
                        "GPU is left out until the agent restarts", index=index, reason=str(error)
                    )
                lost = error
        if not self._known and lost is not None:
            raise lost
        return tuple(self._known[index] for index in sorted(self._known))

    def wait_for_event(self, seconds: float) -> HealthEvent | None:
        """Return the next critical Xid; None if there was none in this time.

        Raises:
            GpuSourceError: waiting failed; the GPUs may be healthy.
        """
        with self._waiting:
            self._waits += 1
            failed = any(error is not None for error in self._unwatched.values())
            if self._events is not None and failed and self._waits % WAITS_UNTIL_TRIED == 0:
                self._forget_events()
            if self._events is None:
                self._events = self._watch_events()
            try:
                data = nvml.nvmlEventSetWait_v2(self._events, int(seconds * 1000))
            except nvml.NVMLError_Timeout:
                return None
            except nvml.NVMLError as error:
                self._forget_events()
                raise GpuSourceError(f"NVML: waiting for events: {error}") from error
            return HealthEvent(_optional(nvml.nvmlDeviceGetUUID, data.device), int(data.eventData))

    def condition_of(self, uuid: str) -> GpuCondition:
        """Return whether a GPU answers, its mode, and the recovery that newer drivers ask for."""
        unwatched = self._unwatched
        tells, error = uuid not in unwatched, unwatched.get(uuid)
        try:
            device = nvml.nvmlDeviceGetHandleByUUID(uuid)
            _memory(device)
        except (nvml.NVMLError, GpuSourceError):
            return GpuCondition(answers=False, tells_xids=tells, watch_error=error)
        action, mig = _action(device), _is_in_mig_mode(device)
        recovery = _RECOVERIES.get(action, f"recovery action {action}")
        return GpuCondition(answers=True, recovery=recovery, mig=mig, tells_xids=tells, watch_error=error)

    def use_of(self, uuid: str) -> GpuUse:
        """Return memory, utilisation and processes of a GPU.

        Raises:
            GpuSourceError: the GPU, or the driver, does not answer.
        """
        device = _asked(nvml.nvmlDeviceGetHandleByUUID, uuid)
        memory = _memory(device)
        busy = _optional(nvml.nvmlDeviceGetUtilizationRates, device)
        found = _optional(nvml.nvmlDeviceGetComputeRunningProcesses, device) or []
        samples = self._samples_of(device, uuid)
        processes = tuple(
            ProcessUse(
                each.pid,
                (each.usedGpuMemory or 0) // _MIB,  # None if the driver does not report it
                samples.get(each.pid, 0) if samples is not None else None,
            )
            for each in found
        )
        used = memory.used // _MIB if memory is not None else sum(each.used_mib for each in processes)
        pids = {each.pid for each in processes}
        return GpuUse(
            used,
            busy.gpu if busy is not None else 0,
            processes,
            knows_busy_processes=samples is not None,
            others_ran=any(ran != 0 for pid, ran in (samples or {}).items() if pid not in pids),
        )

    def _samples_of(self, device: Any, uuid: str) -> Mapping[int, int | None] | None:
        """Return the per cent of time of each process that ran since the last question about this GPU.

        None if the driver does not report it. The driver averages since a time stamp of its caller.
        """
        now = time.time_ns() // 1000
        since = min(self._sampled.get(uuid, now - FIRST_SAMPLES_MICROSECONDS), now)
        self._sampled[uuid] = now
        # Drivers before R550 lack the first; some newer cards do not support the second.
        for call in (nvml.nvmlDeviceGetProcessesUtilizationInfo, nvml.nvmlDeviceGetProcessUtilization):
            try:
                found = call(device, since)
            except nvml.NVMLError as error:
                if error.value in _NO_SAMPLES:
                    return {}
                continue
            # Some drivers return garbage for processes that have ended.
            return {each.pid: each.smUtil if each.smUtil <= _MAX_PERCENT else None for each in found}
        return None

    def why_no_driver_limits(self) -> str | None:
        """Return why the driver cannot limit containers on some GPU that is not in MIG mode; None if it can.

        Drivers before 615 lack the function; limits need control groups of version 2.
        """
        if not (self._cgroups / "cgroup.controllers").is_file():
            return f"{self._cgroups} is not of version 2"
        for gpu in self._known.values():
            limits = nvml.c_nvmlGetMemoryLimits_v1_t()
            limits.nameSpace = str(self._cgroups).encode()
            try:
                if not gpu.mig:
                    nvml.nvmlDeviceGetMemoryLimits_v1(nvml.nvmlDeviceGetHandleByIndex(gpu.index), limits)
            except nvml.NVMLError_NotFound:
                continue  # it supports limits, and has none for this group
            except nvml.NVMLError as error:
                return f"GPU {gpu.index}: nvmlDeviceGetMemoryLimits_v1: {error}"
        return None

    def close(self) -> None:
        """End the session with the driver, after a wait for an event has ended."""
        with self._waiting:
            self._forget_events()
            nvml.nvmlShutdown()

    def _gpu(self, index: int) -> Gpu:
        device = _asked(nvml.nvmlDeviceGetHandleByIndex, index)
        memory_mib, mig = self._memory_mib(index, device), _is_in_mig_mode(device)
        bus, architecture = _bus(device), _optional(nvml.nvmlDeviceGetArchitecture, device)
        return Gpu(
            index=index,
            uuid=_asked(nvml.nvmlDeviceGetUUID, device),
            model=_asked(nvml.nvmlDeviceGetName, device),
            memory_mib=memory_mib,
            numa_node=self._numa_node(bus),
            mig=mig,
            mig_profiles=tuple(_mig_profiles(device, memory_mib)) if mig else (),
            reserved_mib=_reserved_mib(device),
            minor=_optional(nvml.nvmlDeviceGetMinorNumber, device),
            bus=bus,
            architecture=None if architecture is None else _ARCHITECTURES.get(architecture, "Unknown"),
            compute_capability=_optional(nvml.nvmlDeviceGetCudaComputeCapability, device),
            driver_version=_optional(nvml.nvmlSystemGetDriverVersion),
        )

    def _memory_mib(self, index: int, device: Any) -> int:
        memory = _memory(device)
        if memory is not None:
            return int(memory.total) // _MIB
        if not self._unified_mib:
            raise GpuSourceError(
                f"GPU {index} ({_asked(nvml.nvmlDeviceGetName, device)}) has no memory of its own, so its"
                " driver reports none: set agent.unifiedMemoryMiB (--unified-memory-mib)"
            )
        return self._unified_mib

    def _numa_node(self, bus: str | None) -> int | None:
        """Return the kernel's NUMA node of a GPU's PCI slot; None if unknown."""
        if bus is None:
            return None
        try:
            node = int((self._pci_devices / bus / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _watch_events(self) -> Any:
        """Return a set with the events of every GPU that has events.

        After a failed registration the set is undefined (NVML's documentation), so another one is created
        without that GPU.
        """
        unwatched: dict[str, str | None] = {}
        while True:
            events = _asked(nvml.nvmlEventSetCreate)
            if _register_all(events, unwatched):
                self._unwatched = unwatched
                return events
            _optional(nvml.nvmlEventSetFree, events)

    def _forget_events(self) -> None:
        if self._events is not None:
            _optional(nvml.nvmlEventSetFree, self._events)
            self._events = None


def _register_all(events: Any, unwatched: dict[str, str | None]) -> bool:
    """Register GPUs that have not failed before; return False, and add the reason, if another one fails."""
    for index in range(_asked(nvml.nvmlDeviceGetCount)):
        # The condition of a lost GPU shows that it is lost.
        device = _optional(nvml.nvmlDeviceGetHandleByIndex, index)
        uuid = _optional(nvml.nvmlDeviceGetUUID, device) if device is not None else None
        if uuid is None or uuid in unwatched:
            continue
        try:
            nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError_NotSupported:
            unwatched[uuid] = None
        except nvml.NVMLError as error:
            unwatched[uuid] = str(error)
            return False
    return True


def _load_below(root: Path) -> None:
    """Load the driver's library, so that it is found by its name afterwards."""
    for path in (_LIBRARY, *(str(root / folder / _LIBRARY) for folder in _LIBRARY_FOLDERS)):
        with contextlib.suppress(OSError):
            ctypes.CDLL(path)
            return


def _bus(device: Any) -> str | None:
    """Return a GPU's PCI slot as the kernel writes it; None if unknown."""
    pci = _optional(nvml.nvmlDeviceGetPciInfo, device)
    # NVML writes the domain in eight digits, the kernel in four.
    return None if pci is None else str(pci.busId).lower()[-len("0000:00:00.0") :]


def _memory(device: Any) -> Any:
    """Return a GPU's memory; None if it has none of its own, and shares the node's.

    Raises:
        GpuSourceError: the GPU, or the driver, does not answer.
    """
    try:
        return nvml.nvmlDeviceGetMemoryInfo(device)
    except nvml.NVMLError_NotSupported:
        return None
    except nvml.NVMLError as error:
        raise GpuSourceError(f"NVML: nvmlDeviceGetMemoryInfo: {error}") from error


def _is_in_mig_mode(device: Any) -> bool:
    mig = _optional(nvml.nvmlDeviceGetMigMode, device)
    return mig is not None and bool(mig[0] == nvml.NVML_DEVICE_MIG_ENABLE)


def _mig_profiles(device: Any, card_mib: int) -> Iterator[MigProfile]:
    """Yield the profiles of a GPU in MIG mode, without those for graphics and of all or no media engines."""
    found: list[tuple[int, Any, list[int], int]] = []
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX):
        info = _optional(nvml.nvmlDeviceGetGpuInstanceProfileInfo, device, number, 1)
        places = _places(device, info.id) if info is not None else ()
        if info is not None and places:
            found.append((number, info, sorted(each.start for each in places), places[0].size))
    # The driver of an RTX PRO 6000 counts a memory slice as three places.
    one = math.gcd(*[count for _, _, starts, size in found for count in (*starts, size)])
    for number, info, starts, size in found:
        name = name_of(info.sliceCount, info.memorySizeMB, card_mib, has_media=number in _WITH_MEDIA)
        at = tuple([start // one for start in starts])
        yield MigProfile(name, info.sliceCount, size // one, info.memorySizeMB, at, info.instanceCount)


def _places(device: Any, profile: int) -> Sequence[Any]:
    """Return where instances of a profile can be on a GPU; empty if the driver does not say."""
    call, count = nvml.nvmlDeviceGetGpuInstancePossiblePlacements, ctypes.c_uint(0)
    if _optional(call, device, profile, None, ctypes.byref(count)) is None:
        return ()
    found = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    return found if _optional(call, device, profile, found, ctypes.byref(count)) is not None else ()


def _reserved_mib(device: Any) -> int:
    """Return the memory of a GPU that the driver reserves; 0 if the driver (before R510) does not say."""
    memory = _optional(nvml.nvmlDeviceGetMemoryInfo, device, nvml.nvmlMemory_v2)
    return 0 if memory is None else -(-int(memory.reserved) // _MIB)


def _action(device: Any) -> int:
    """Return the driver's recovery action; NONE if the driver is too old to report it."""
    field = nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    values = _optional(nvml.nvmlDeviceGetFieldValues, device, [field])
    if not values or values[0].nvmlReturn != nvml.NVML_SUCCESS:
        return int(nvml.NVML_GPU_RECOVERY_ACTION_NONE)
    return int(values[0].value.uiVal)


def _asked(call: Callable[..., Answer], *arguments: Any) -> Answer:
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            raise GpuSourceError("there is no NVIDIA driver: libnvidia-ml.so.1 is not found") from error
        raise GpuSourceError(f"NVML: {call.__name__}: {error}") from error


def _optional(call: Callable[..., Answer], *arguments: Any) -> Answer | None:
    """Return the answer; None on any error, for functions that some cards or drivers lack."""
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None
