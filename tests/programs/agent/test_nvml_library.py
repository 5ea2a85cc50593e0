"""The library with NVML's ABI that NVIDIA's programs use, by NVIDIA's own bindings for Python.

The functions in Python that most tests of the agent use instead give the same answers.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from agent.gpu import GpuSourceError
from agent.nvml import Nvml
from testbed.nvidia import library
from testbed.nvidia.cards import (
    LIMITS_OFFERED,
    SAMPLES_OF_NEW,
    SAMPLES_OF_OLD,
    Card,
    CountedGroup,
    MigInstance,
    NvmlNode,
    RunningProcess,
    WaitError,
    Xid,
)
from tests.agent.support.nvml_library import NvmlLibrary, in_use
from tests.programs.agent import processes

MIB = 1024 * 1024
A100 = Card("GPU-a", reserved_mib=583, used_mib=100, busy_percent=37, processes=(RunningProcess(7, 64),))
T4 = Card("GPU-b", "Tesla T4", minor=1, memory_mib=16384, mig=None, capability="7.5", recovery=None)
INSTANCES = MigInstance("MIG-1", 1, 3, 20096), MigInstance("MIG-2", 2, 1, 4864)


@contextmanager
def driver_of(cards: Path) -> Iterator[None]:
    """Have this process use the library too, and read a file of cards."""
    with processes.driver_of(cards), in_use(None):
        library.load()
        yield


@pytest.fixture
def say(tmp_path):
    """Open NVML over two cards, and return what says which there are from now on."""
    file = tmp_path / "cards"

    def say(*cards, **more):
        NvmlNode(cards, **more).write(file)

    say(A100, T4)
    with driver_of(file):
        pynvml.nvmlInit()
        yield say
        pynvml.nvmlShutdown()


def card(index):
    """A card by its index."""
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def error(call, *arguments):
    """The name of the error with which a call ends."""
    with pytest.raises(pynvml.NVMLError) as raised:
        call(*arguments)
    return str(raised.value)


def test_a_card_says_what_stands_in_the_file(say):
    assert pynvml.nvmlSystemGetDriverVersion() == "595.71.05"
    assert pynvml.nvmlDeviceGetCount() == 2
    assert pynvml.nvmlDeviceGetUUID(card(1)) == "GPU-b"
    assert pynvml.nvmlDeviceGetName(card(1)) == "Tesla T4"
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID("GPU-b")) == 1
    assert pynvml.nvmlDeviceGetPciInfo(card(1)).busId == "00000000:11:00.0"
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(b"0000:11:00.0")) == 1
    assert pynvml.nvmlDeviceGetCudaComputeCapability(card(1)) == (7, 5)
    assert pynvml.nvmlDeviceGetUtilizationRates(card(0)).gpu == 37
    [process] = pynvml.nvmlDeviceGetComputeRunningProcesses(card(0))
    assert (process.pid, process.usedGpuMemory) == (7, 64 * MIB)
    assert error(card, 2) == "Invalid Argument"
    assert error(pynvml.nvmlDeviceGetHandleByUUID, "GPU-z") == "Not Found"


def test_reserved_memory_is_in_the_total_and_only_version_2_states_it(say):
    first = pynvml.nvmlDeviceGetMemoryInfo(card(0))
    second = pynvml.nvmlDeviceGetMemoryInfo(card(0), version=pynvml.nvmlMemory_v2)
    assert (first.total, first.used) == (40960 * MIB, 683 * MIB)
    assert (second.total, second.reserved, second.used) == (40960 * MIB, 583 * MIB, 100 * MIB)
    assert first.free == second.free == 40277 * MIB
    assert error(pynvml.nvmlDeviceGetMemoryInfo, card(0), 2) == "Argument Version Mismatch"


def test_a_card_without_mig_says_so_and_one_in_mig_mode_has_devices(say):
    assert error(pynvml.nvmlDeviceGetMigMode, card(1)) == "Not Supported"
    assert pynvml.nvmlDeviceGetMigMode(card(0)) == [0, 0]
    say(replace(A100, mig=True, instances=INSTANCES), T4)
    assert pynvml.nvmlDeviceGetMigMode(card(0)) == [1, 1]
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card(0), 1)
    assert pynvml.nvmlDeviceGetUUID(device) == "MIG-2"
    assert pynvml.nvmlDeviceGetName(device) == "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    assert pynvml.nvmlDeviceGetMemoryInfo(device).total == 4864 * MIB
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    assert pynvml.nvmlDeviceGetUUID(parent) == "GPU-a"
    assert error(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, card(0), 2) == "Not Found"


def test_a_card_falls_off_the_bus_and_comes_back_by_the_same_handle(say):
    device = card(0)
    for cards in ((replace(A100, lost=True), T4), (T4,)):
        say(*cards)
        assert error(pynvml.nvmlDeviceGetMemoryInfo, device) == "GPU is lost"
        say(A100, T4)
        assert pynvml.nvmlDeviceGetMemoryInfo(device).total == 40960 * MIB


def recovery(index):
    """What the driver asks for, as a field of its own."""
    [value] = pynvml.nvmlDeviceGetFieldValues(card(index), [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    return value.nvmlReturn, value.value.uiVal


def test_a_driver_asks_for_a_reset_or_does_not_know_the_field(say):
    say(replace(A100, recovery=pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET), T4)
    assert recovery(0) == (pynvml.NVML_SUCCESS, pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET)
    assert recovery(1)[0] == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_a_set_reports_each_later_event_of_its_cards_once(say):
    say(A100, T4, events=(Xid("GPU-a", 1),))
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(card(0), pynvml.nvmlEventTypeXidCriticalError, events)
    assert error(pynvml.nvmlEventSetWait_v2, events, 0) == "Timeout"
    say(A100, T4, events=(Xid("GPU-a", 1), Xid("GPU-b", 13), WaitError(999), Xid("GPU-a", 79)))
    assert error(pynvml.nvmlEventSetWait_v2, events, 0) == "Unknown Error"
    event = pynvml.nvmlEventSetWait_v2(events, 0)
    assert (pynvml.nvmlDeviceGetUUID(event.device), event.eventData) == ("GPU-a", 79)
    assert error(pynvml.nvmlEventSetWait_v2, events, 0) == "Timeout"
    pynvml.nvmlEventSetFree(events)


def test_an_event_wakes_a_thread_that_waits_for_it(say):
    events, received = pynvml.nvmlEventSetCreate(), []
    pynvml.nvmlDeviceRegisterEvents(card(0), pynvml.nvmlEventTypeXidCriticalError, events)
    waiting = threading.Thread(target=lambda: received.append(pynvml.nvmlEventSetWait_v2(events, 60_000)))
    waiting.start()
    say(A100, T4, events=(Xid("GPU-a", 48),))
    waiting.join()
    assert received[0].eventData == 48
    pynvml.nvmlEventSetFree(events)


def test_a_driver_before_615_knows_no_limits_of_control_groups(say):
    limits = pynvml.c_nvmlGetMemoryLimits_v1_t()
    assert error(pynvml.nvmlDeviceGetMemoryLimits_v1, card(0), limits) == "Function Not Found"
    say(A100, T4, limits=LIMITS_OFFERED)
    assert error(pynvml.nvmlDeviceGetMemoryLimits_v1, card(0), limits) == "Not Found"


@pytest.mark.parametrize("text", ["", "what 1\n", "card\nmemory 1\n", "uuid GPU-a\n", "driver\n"])
def test_a_file_of_another_form_is_no_driver(tmp_path, text, capfd):
    (tmp_path / "cards").write_text(text or "driver 1\ncard\ncolour red\n")
    with driver_of(tmp_path / "cards"):
        assert error(pynvml.nvmlInit) == "Driver Not Loaded"
    assert f"{tmp_path}/cards:" in capfd.readouterr().err


def test_without_a_file_there_is_no_driver(tmp_path):
    with driver_of(tmp_path / "none"):
        assert error(pynvml.nvmlInit) == "Driver Not Loaded"


PROCESSES = (
    RunningProcess(7, 64, 30),
    RunningProcess(8, None),
    RunningProcess(9, 5, 101),
    RunningProcess(6, 1, 0),
)
CHANGES = {
    "nothing": NvmlNode((A100, T4)),
    "no card": NvmlNode(()),
    "another driver and its limits": NvmlNode((A100, T4), driver="615.10.02", limits=LIMITS_OFFERED),
    "limits that fail": NvmlNode((A100, T4), limits=pynvml.NVML_ERROR_NOT_SUPPORTED),
    "groups": NvmlNode((replace(A100, groups=(CountedGroup("one", 1536),)), T4), limits=LIMITS_OFFERED),
    "MIG": NvmlNode((replace(A100, mig=True, instances=INSTANCES), T4)),
    "a lost card": NvmlNode((replace(A100, lost=True), T4)),
    "a card that is gone": NvmlNode((T4,)),
    "cards in another order": NvmlNode((T4, A100)),
    "a recovery": NvmlNode((replace(A100, recovery=pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET), T4)),
    "older and newer cards": NvmlNode((replace(A100, capability="12.0"), replace(T4, capability="7.0"))),
    "newer cards": NvmlNode((replace(A100, capability="8.9"), replace(T4, capability="9.0"))),
    "events": NvmlNode((A100, T4), (Xid("GPU-b", 13), WaitError(999), Xid("GPU-a", 79), Xid("GPU-b", 48))),
    "events of a lost card": NvmlNode((replace(A100, lost=True), T4), (Xid("GPU-a", 79),)),
    "no events": NvmlNode((replace(A100, events=pynvml.NVML_ERROR_NOT_SUPPORTED), T4), (Xid("GPU-a", 1),)),
    "events that cannot be watched": NvmlNode((replace(A100, events=pynvml.NVML_ERROR_UNKNOWN), T4)),
    **{
        f"processes by {function}": NvmlNode((replace(A100, processes=PROCESSES, samples=function), T4))
        for function in (0, SAMPLES_OF_OLD, SAMPLES_OF_NEW, SAMPLES_OF_OLD + SAMPLES_OF_NEW)
    },
    "processes of before": NvmlNode((replace(A100, processes=(RunningProcess(7, 64, 30, 1),)), T4)),
}


def answered(call, *arguments):
    """What a source answers, or its error."""
    try:
        return call(*arguments)
    except GpuSourceError as error:
        return str(error)


def answers(source, group):
    """All that the agent asks a driver."""
    found = [answered(source.list_gpus), source.why_no_driver_limits()]
    for uuid in ("GPU-a", "GPU-b", "GPU-z"):
        found += [
            source.condition_of(uuid),
            answered(source.identity_of, uuid),
            answered(source.use_of, uuid),
        ]
        found.append(source.used_by_group(uuid, group))
    return [*found, *[answered(source.wait_for_event, 0) for _ in range(6)]]


@pytest.mark.parametrize("when", ["before the start", "later"])
@pytest.mark.parametrize("what", CHANGES)
def test_the_functions_in_python_answer_the_agent_as_the_library_does(tmp_path, what, when):
    file, in_python = tmp_path / "cards", NvmlLibrary()
    (tmp_path / "cgroup.controllers").touch()

    def take(node):
        node.write(file)
        in_python.node = node

    def ask():
        take(CHANGES[what] if when == "before the start" else NvmlNode((A100, T4)))
        source = Nvml(tmp_path, tmp_path)
        take(CHANGES[what])
        found = answers(source, tmp_path / "kubepods" / "one")
        source.close()
        return found

    with in_use(in_python):
        by_python = ask()
    with driver_of(file):
        assert by_python == ask()
