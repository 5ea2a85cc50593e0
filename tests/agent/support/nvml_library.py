"""NVML's functions that the agent calls, in Python, for `pynvml` to call instead of a library's.

`pynvml` gives each function what it gives a library's: handles, buffers and references of ctypes. The library
in C (`testbed/nvidia/nvml/`) has more functions, for any program.
"""

# ruff: noqa: N802 - NVML's names

import contextlib
import ctypes
import functools
import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pynvml as nvml

from testbed.nvidia.cards import NONE_WITHOUT_ERROR, SAMPLES_OF_NEW, SAMPLES_OF_OLD, Card, NvmlNode, WaitError

MIB = 1024 * 1024
MOST_PROCESSES = 64
ARCHITECTURES = ((7.5, 5), (8.0, 6), (8.9, 7), (9.0, 8), (10.0, 9))
"""NVML's numbers of architectures, each of the capabilities below one."""
NEWEST_ARCHITECTURE = 10
SLICES = ((1, 1), (2, 2), (3, 4), (4, 4), (7, 8), (8, 8))
"""Compute and memory slices of MIG profiles, by NVML's numbers."""


class _Set:
    """A set of events."""

    def __init__(self, told: int) -> None:
        self.told, self.waiting, self.undefined = told, 0, False
        self.watched: set[str] = set()


class _CodeError(Exception):
    """What a function returns instead of success."""


def _function(call: Any) -> Any:
    """Have a method be a function of NVML: with a result, and with the lock held."""

    @functools.wraps(call)
    def function(self: "NvmlLibrary", *given: Any) -> int:
        with self._changed:
            try:
                if not self._users:
                    return nvml.NVML_ERROR_UNINITIALIZED
                call(self, *given)
            except _CodeError as error:
                return error.args[0]
            return nvml.NVML_SUCCESS

    return function


def _of_card(call: Any) -> Any:
    """Have a method be a function of one card."""

    @functools.wraps(call)
    def function(self: "NvmlLibrary", handle: Any, *given: Any) -> None:
        uuid = self._handles[_number(handle) - 1]
        call(self, self._found(card for card in self.node.cards if card.uuid == uuid), *given)

    return _function(function)


class NvmlLibrary:
    """A driver's library. Its cards are those of `node`, which tests replace; without it there is no driver.

    Two mistakes that a driver's library need not survive are assertions here: to wait for a set of events in
    which a card could not be entered, and to free a set for which a thread waits.
    """

    def __init__(self) -> None:
        self._node: NvmlNode | None = None
        self._users = 0
        self._handles: list[str] = []
        self._sets: list[_Set] = []
        self._changed = threading.Condition(threading.RLock())

    @property
    def node(self) -> NvmlNode:
        """What the driver knows."""
        if self._node is None:
            raise _CodeError(nvml.NVML_ERROR_DRIVER_NOT_LOADED)
        return self._node

    @node.setter
    def node(self, node: NvmlNode) -> None:
        with self._changed:
            self._node = node
            self._changed.notify_all()

    def nvmlInitWithFlags(self, flags):
        with self._changed:
            if self._node is None:
                return nvml.NVML_ERROR_DRIVER_NOT_LOADED
            self._users += 1
            return nvml.NVML_SUCCESS

    @_function
    def nvmlShutdown(self):
        self._users -= 1

    @_function
    def nvmlSystemGetDriverVersion(self, version, length):
        version.value = self.node.driver.encode()

    @_function
    def nvmlDeviceGetCount_v2(self, count):
        count._obj.value = len(self.node.cards)

    @_function
    def nvmlDeviceGetHandleByIndex_v2(self, index, device):
        if index.value >= len(self.node.cards):
            raise _CodeError(nvml.NVML_ERROR_INVALID_ARGUMENT)
        _point(device, self._handle(self._found(iter(self.node.cards[index.value : index.value + 1]))))

    @_function
    def nvmlDeviceGetHandleByUUID(self, uuid, device):
        named = (card for card in self.node.cards if card.uuid == uuid.value.decode())
        _point(device, self._handle(self._found(named, nvml.NVML_ERROR_NOT_FOUND)))

    @_of_card
    def nvmlDeviceGetUUID(self, card, uuid, length):
        uuid.value = card.uuid.encode()

    @_of_card
    def nvmlDeviceGetName(self, card, name, length):
        name.value = card.name.encode()

    @_of_card
    def nvmlDeviceGetMinorNumber(self, card, minor):
        minor._obj.value = card.minor

    @_of_card
    def nvmlDeviceGetCudaComputeCapability(self, card, major, minor):
        major._obj.value, minor._obj.value = map(int, card.capability.split("."))

    @_of_card
    def nvmlDeviceGetArchitecture(self, card, architecture):
        older = (number for below, number in ARCHITECTURES if float(card.capability) < below)
        architecture._obj.value = next(older, NEWEST_ARCHITECTURE)

    @_of_card
    def nvmlDeviceGetPciInfo_v3(self, card, pci):
        pci._obj.busId = f"0000{card.bus}".upper().encode()

    @_of_card
    def nvmlDeviceGetMigMode(self, card, now, pending):
        if card.mig is None:
            raise _CodeError(nvml.NVML_ERROR_NOT_SUPPORTED)
        now._obj.value = pending._obj.value = int(card.mig)

    @_of_card
    def nvmlDeviceGetGpuInstanceProfileInfo(self, card, profile, info):
        if card.mig is None or profile >= len(SLICES):
            raise _CodeError(nvml.NVML_ERROR_NOT_SUPPORTED)
        compute, memory = SLICES[profile]
        found = info._obj
        found.id, found.sliceCount, found.instanceCount = profile, compute, 7 // compute
        found.memorySizeMB = card.memory_mib * memory // 8

    @_of_card
    def nvmlDeviceGetGpuInstancePossiblePlacements_v2(self, card, profile, places, count):
        if not card.mig:
            raise _CodeError(nvml.NVML_ERROR_NOT_SUPPORTED)
        compute, memory = SLICES[profile]
        count._obj.value = 7 // compute
        for number in range(7 // compute if places is not None else 0):
            places[number].start, places[number].size = number * memory, memory

    @_of_card
    def nvmlDeviceGetMemoryInfo(self, card, memory):
        memory._obj.total = card.memory_mib * MIB
        memory._obj.used = (card.reserved_mib + card.used_mib) * MIB
        memory._obj.free = memory._obj.total - memory._obj.used

    @_of_card
    def nvmlDeviceGetMemoryInfo_v2(self, card, memory):
        memory._obj.total, memory._obj.reserved = card.memory_mib * MIB, card.reserved_mib * MIB
        memory._obj.used = card.used_mib * MIB
        memory._obj.free = memory._obj.total - memory._obj.reserved - memory._obj.used

    @_of_card
    def nvmlDeviceGetUtilizationRates(self, card, busy):
        if card.mig:
            raise _CodeError(nvml.NVML_ERROR_NOT_SUPPORTED)
        busy._obj.gpu = card.busy_percent

    @_of_card
    def nvmlDeviceGetFieldValues(self, card, count, values):
        for value in values._obj:
            told = value.fieldId == nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION and card.recovery is not None
            value.nvmlReturn = nvml.NVML_SUCCESS if told else nvml.NVML_ERROR_NOT_SUPPORTED
            value.value.ullVal = card.recovery if told else 0

    @_of_card
    def nvmlDeviceGetMemoryLimits_v1(self, card, limits):
        if self.node.limits:
            raise _CodeError(self.node.limits)

    @_of_card
    def nvmlDeviceGetComputeRunningProcesses_v3(self, card, count, processes):
        room, count._obj.value = count._obj.value, len(card.processes)
        if room < len(card.processes):
            raise _CodeError(nvml.NVML_ERROR_INSUFFICIENT_SIZE)
        for process, entry in zip(card.processes, processes or (), strict=False):
            unknown = nvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value
            entry.pid = process.pid
            entry.usedGpuMemory = unknown if process.used_mib is None else process.used_mib * MIB

    @_of_card
    def nvmlDeviceGetProcessUtilization(self, card, samples, count, since):
        room, count._obj.value = count._obj.value, MOST_PROCESSES
        found = _samples(card, SAMPLES_OF_OLD, room, since.value)
        count._obj.value = _write(found, samples)

    @_of_card
    def nvmlDeviceGetProcessesUtilizationInfo(self, card, info):
        room, info._obj.processSamplesCount = info._obj.processSamplesCount, MOST_PROCESSES
        found = _samples(card, SAMPLES_OF_NEW, room, info._obj.lastSeenTimeStamp)
        info._obj.processSamplesCount = _write(found, info._obj.procUtilArray)

    @_function
    def nvmlEventSetCreate(self, events):
        self._sets.append(_Set(len(self.node.events)))
        _point(events, len(self._sets))

    @_function
    def nvmlEventSetFree(self, events):
        assert not self._sets[_number(events) - 1].waiting, "a thread still waits for this set"

    @_of_card
    def nvmlDeviceRegisterEvents(self, card, types, events):
        entered = self._sets[_number(events) - 1]
        entered.undefined |= card.events not in (nvml.NVML_SUCCESS, nvml.NVML_ERROR_NOT_SUPPORTED)
        if card.events:
            raise _CodeError(card.events)
        entered.watched.add(card.uuid)

    @_function
    def nvmlEventSetWait_v2(self, events, data, milliseconds):
        waited = self._sets[_number(events) - 1]
        assert not waited.undefined, "registering failed in this set, and it is undefined"
        waited.waiting += 1
        told = self._changed.wait_for(lambda: self._next_event(waited, data._obj), milliseconds.value / 1000)
        waited.waiting -= 1
        if told is not True:
            raise _CodeError(told or nvml.NVML_ERROR_TIMEOUT)

    def _next_event(self, waited: _Set, data: Any) -> bool | int:
        """Whether there was an event; the number of an error that is there instead."""
        for event in self.node.events[waited.told :]:
            waited.told += 1
            if isinstance(event, WaitError):
                return event.number
            if event.uuid in waited.watched:
                data.device = ctypes.cast(self._handles.index(event.uuid) + 1, nvml.c_nvmlDevice_t)
                data.eventType, data.eventData = nvml.nvmlEventTypeXidCriticalError, event.xid
                return True
        return False

    def _found(self, cards: Iterator[Card], otherwise: int = nvml.NVML_ERROR_GPU_IS_LOST) -> Card:
        if (card := next(cards, None)) is None:
            raise _CodeError(otherwise)
        if card.lost:
            raise _CodeError(nvml.NVML_ERROR_GPU_IS_LOST)
        return card

    def _handle(self, card: Card) -> int:
        """Return the number that stands for a card, the same as ever."""
        if card.uuid not in self._handles:
            self._handles.append(card.uuid)
        return self._handles.index(card.uuid) + 1


def _number(handle: Any) -> int:
    """Return the number that a handle, which is a pointer, stands for."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _point(reference: Any, number: int) -> None:
    """Have a pointer be a handle."""
    ctypes.c_void_p.from_buffer(reference._obj).value = number


def _samples(card: Card, function: int, room: int, since: int) -> list[tuple[int, int, int]]:
    """Return pid, time and per cent of the processes that ran since then."""
    if card.mig or not card.samples & function:
        raise _CodeError(nvml.NVML_ERROR_NOT_SUPPORTED)
    now = time.time_ns() // 1000
    ran = [each for each in card.processes if each.busy_percent is not None]
    found = [(each.pid, each.sampled_at or now, each.busy_percent) for each in ran]
    found = [each for each in found if each[1] > since]
    if not found:
        without_error = card.samples & NONE_WITHOUT_ERROR
        raise _CodeError(nvml.NVML_SUCCESS if without_error else nvml.NVML_ERROR_NOT_FOUND)
    if room < MOST_PROCESSES:
        raise _CodeError(nvml.NVML_ERROR_INSUFFICIENT_SIZE)
    return found


def _write(found: list[tuple[int, int, int]], samples: Any) -> int:
    for index, (pid, stamp, busy) in enumerate(found):
        samples[index].pid, samples[index].timeStamp, samples[index].smUtil = pid, stamp, busy
    return len(found)


@contextlib.contextmanager
def in_use(library: NvmlLibrary | None) -> Iterator[None]:
    """Have `pynvml` in this process use a library while the context is open; None: one that it looks for."""
    with (
        mock.patch.object(nvml, "nvmlLib", library),
        mock.patch.object(nvml, "_nvmlGetFunctionPointer_cache", {}),
    ):
        yield
