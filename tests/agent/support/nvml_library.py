"""Functions that the agent calls of `pynvml`, with answers as of NVIDIA's bindings and of a driver.

On real nodes (`tests/real_nodes`) the bindings themselves ask the library in C (`testbed/nvidia/nvml/`).
"""

# ruff: noqa: N802 - NVML's names

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace as Answer
from typing import Any
from unittest import mock

import pynvml as nvml

from testbed.nvidia.cards import NONE_WITHOUT_ERROR, SAMPLES_OF_NEW, SAMPLES_OF_OLD, Card, NvmlNode, WaitError

MIB = 1024 * 1024
SLICES = ((1, 1), (2, 2), (3, 4), (4, 4), (7, 8), (8, 8))
"""Compute and memory slices of MIG profiles, by NVML's numbers."""


def _function(call: Any) -> Any:
    """Have a method be a function of NVML, which needs an open session."""

    @functools.wraps(call)
    def function(self: "NvmlLibrary", *given: Any) -> Any:
        with self._one_at_a_time:
            if not self._users:
                raise nvml.NVMLError(nvml.NVML_ERROR_UNINITIALIZED)
            return call(self, *given)

    return function


def _of_card(call: Any) -> Any:
    """Have a method be a function of one card, whose handle is its UUID."""

    @functools.wraps(call)
    def function(self: "NvmlLibrary", uuid: str, *given: Any) -> Any:
        return call(self, self._card(uuid), *given)

    return _function(function)


_OF_CARD = {
    "nvmlDeviceGetHandleByUUID": lambda card: card.uuid,
    "nvmlDeviceGetUUID": lambda card: card.uuid,
    "nvmlDeviceGetName": lambda card: card.name,
    "nvmlDeviceGetMinorNumber": lambda card: card.minor,
    "nvmlDeviceGetCudaComputeCapability": lambda card: tuple(map(int, card.capability.split("."))),
    "nvmlDeviceGetArchitecture": lambda card: {"8.0": nvml.NVML_DEVICE_ARCH_AMPERE}[card.capability],
    "nvmlDeviceGetPciInfo": lambda card: Answer(busId=f"0000{card.bus}".upper()),
    "nvmlDeviceGetMigMode": lambda card: _refuse(card.mig is None) or [int(card.mig), int(card.mig)],
    "nvmlDeviceGetUtilizationRates": lambda card: _refuse(card.mig) or Answer(gpu=card.busy_percent),
    "nvmlDeviceGetComputeRunningProcesses": lambda card: [
        Answer(pid=each.pid, usedGpuMemory=None if each.used_mib is None else each.used_mib * MIB)
        for each in card.processes
    ],
    "nvmlDeviceGetProcessUtilization": lambda card, since: _samples(card, SAMPLES_OF_OLD, since),
    "nvmlDeviceGetProcessesUtilizationInfo": lambda card, since: _samples(card, SAMPLES_OF_NEW, since),
}


class NvmlLibrary:
    """A driver. Its cards are those of `node`, which tests replace; without it there is no driver.

    Two mistakes that a driver's library need not survive are assertions here: to wait for a set of events in
    which a card could not be entered, and to free a set for which a thread waits.
    """

    def __init__(self) -> None:
        self.node: NvmlNode | None = None
        self._users = 0
        self._one_at_a_time = threading.Condition(threading.RLock())

    def nvmlInit(self):
        if self.node is None:
            raise nvml.NVMLError(nvml.NVML_ERROR_DRIVER_NOT_LOADED)
        with self._one_at_a_time:
            self._users += 1

    @_function
    def nvmlShutdown(self):
        self._users -= 1

    @_function
    def nvmlSystemGetDriverVersion(self):
        return self.node.driver

    @_function
    def nvmlDeviceGetCount(self):
        return len(self.node.cards)

    @_function
    def nvmlDeviceGetHandleByIndex(self, index):
        return self._card(self.node.cards[index].uuid).uuid

    @_of_card
    def nvmlDeviceGetGpuInstanceProfileInfo(self, card, profile, version):
        _refuse(card.mig is None or profile >= len(SLICES))
        compute, memory = SLICES[profile]
        mib = card.memory_mib * memory // 8
        return Answer(id=profile, sliceCount=compute, instanceCount=7 // compute, memorySizeMB=mib)

    @_of_card
    def nvmlDeviceGetGpuInstancePossiblePlacements(self, card, profile, places, count):
        _refuse(not card.mig)
        compute, memory = SLICES[profile]
        count._obj.value = 7 // compute
        for number in range(7 // compute if places is not None else 0):
            places[number].start, places[number].size = number * memory, memory
        return nvml.NVML_SUCCESS

    @_of_card
    def nvmlDeviceGetMemoryInfo(self, card, version=None):
        kept = 0 if version is not None else card.reserved_mib
        total, reserved = card.memory_mib * MIB, card.reserved_mib * MIB
        return Answer(total=total, reserved=reserved, used=(kept + card.used_mib) * MIB)

    @_of_card
    def nvmlDeviceGetFieldValues(self, card, fields):
        assert fields == [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        error = nvml.NVML_ERROR_NOT_SUPPORTED if card.recovery is None else nvml.NVML_SUCCESS
        return [Answer(nvmlReturn=error, value=Answer(uiVal=card.recovery))]

    @_of_card
    def nvmlDeviceGetMemoryLimits_v1(self, card, limits):
        if self.node.limits:
            raise nvml.NVMLError(self.node.limits)

    @_function
    def nvmlEventSetCreate(self):
        return Answer(told=len(self.node.events), waiting=0, undefined=False, watched=set())

    @_function
    def nvmlEventSetFree(self, events):
        assert not events.waiting, "a thread still waits for this set"

    @_of_card
    def nvmlDeviceRegisterEvents(self, card, types, events):
        if card.events:
            events.undefined |= card.events != nvml.NVML_ERROR_NOT_SUPPORTED
            raise nvml.NVMLError(card.events)
        events.watched.add(card.uuid)

    @_function
    def nvmlEventSetWait_v2(self, events, milliseconds):
        assert not events.undefined, "registering failed in this set, and it is undefined"
        events.waiting += 1
        event = self._one_at_a_time.wait_for(lambda: self._next_event(events), milliseconds / 1000)
        events.waiting -= 1
        if isinstance(event, WaitError) or not event:
            raise nvml.NVMLError(event.number if event else nvml.NVML_ERROR_TIMEOUT)
        return Answer(device=event.uuid, eventData=event.xid)

    def _next_event(self, waited: Any) -> Any:
        for event in self.node.events[waited.told :]:
            waited.told += 1
            if isinstance(event, WaitError) or event.uuid in waited.watched:
                return event
        return None

    def _card(self, uuid: str) -> Card:
        card = next((card for card in self.node.cards if card.uuid == uuid), None)
        if card is None or card.lost:
            raise nvml.NVMLError(nvml.NVML_ERROR_GPU_IS_LOST)
        return card


def _refuse(is_unknown: object) -> None:
    """Answer that a card does not know a function."""
    if is_unknown:
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)


def _samples(card: Card, function: int, since: int) -> list[Answer]:
    """Return pid and per cent of the processes that ran since then."""
    _refuse(card.mig or not card.samples & function)
    now = time.time_ns() // 1000
    ran = [each for each in card.processes if each.busy_percent is not None]
    found = [
        Answer(pid=each.pid, smUtil=each.busy_percent) for each in ran if (each.sampled_at or now) > since
    ]
    if not found:
        is_success = card.samples & NONE_WITHOUT_ERROR
        raise nvml.NVMLError(nvml.NVML_SUCCESS if is_success else nvml.NVML_ERROR_NOT_FOUND)
    return found


@contextlib.contextmanager
def in_use(library: NvmlLibrary) -> Iterator[None]:
    """Have `pynvml` in this process be a driver while the context is open."""
    functions = {name: each for name, each in vars(NvmlLibrary).items() if name.startswith("nvml")}
    functions |= {
        name: _of_card(lambda _, *given, each=each: each(*given)) for name, each in _OF_CARD.items()
    }
    with mock.patch.multiple(nvml, **{name: each.__get__(library) for name, each in functions.items()}):
        yield
