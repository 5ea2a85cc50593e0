"""NVML as a source of GPUs: NVIDIA's bindings over functions that answer as NVML's. No GPU was at hand."""

import contextlib
import ctypes
import threading
import time
from dataclasses import replace
from unittest import mock

import pynvml
import pytest

from agent.gpu import Gpu, GpuCondition, GpuSourceError, GpuUse, HealthEvent, ProcessUse
from agent.nvml import Nvml
from testbed.nvidia.cards import NONE_WITHOUT_ERROR, Card, RunningProcess, WaitError, Xid
from testbed.nvidia.cards import SAMPLES_OF_NEW as NEW
from testbed.nvidia.cards import SAMPLES_OF_OLD as OLD
from tests.agent.support.node import node_folder

FIRST = Card("GPU-0", "NVIDIA H100", memory_mib=81559, mig=None)
SECOND = Card("GPU-1", "NVIDIA H100", minor=1, memory_mib=81559)
LOST = replace(FIRST, lost=True), replace(SECOND, lost=True)


@pytest.fixture
def node():
    with node_folder() as node:
        node.write_gpus(FIRST, SECOND)
        yield node


@pytest.fixture
def source(node):
    source = node.open_driver()
    yield source
    source.close()


def test_gpus_have_the_kernels_numa_node(node, source):
    node.write_numa_node(FIRST, 1)
    node.write_numa_node(SECOND, -1)
    known = {"architecture": "Ampere", "compute_capability": (8, 0), "driver_version": "595.71.05"}
    assert source.list_gpus() == (
        Gpu(0, "GPU-0", "NVIDIA H100", 81559, numa_node=1, minor=0, bus=FIRST.bus, **known),
        Gpu(1, "GPU-1", "NVIDIA H100", 81559, minor=1, bus=SECOND.bus, **known),
    )


def test_without_a_figure_of_reserved_memory_none_is_reserved(node, source, monkeypatch):
    node.write_gpus(replace(FIRST, reserved_mib=600), SECOND)
    of_version_1 = pynvml.nvmlDeviceGetMemoryInfo

    def asked(device, version=None):
        return (
            raising(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)() if version is not None else of_version_1(device)
        )

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", asked)
    assert source.list_gpus()[0].usable_mib == 81559


def raising(number):
    return mock.Mock(side_effect=pynvml.NVMLError(number))


def test_a_card_without_memory_of_its_own_has_the_mib_that_are_configured(node, source, monkeypatch):
    node.write_gpus(replace(FIRST, name="NVIDIA GB10", processes=(RunningProcess(7, 512),)))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", raising(pynvml.NVML_ERROR_NOT_SUPPORTED))
    with pytest.raises(GpuSourceError, match=r"NVIDIA GB10\) has no memory .* set agent\.unifiedMemoryMiB"):
        source.list_gpus()
    with contextlib.closing(Nvml(unified_mib=114688)) as configured:
        assert configured.list_gpus()[0].usable_mib == 114688
        assert configured.condition_of("GPU-0").why_unhealthy is None
        assert configured.use_of("GPU-0").used_mib == 512


def test_a_card_in_mig_mode_says_what_it_can_be_divided_into(node, source, monkeypatch):
    card = replace(SECOND, memory_mib=81920, mig=True)
    node.write_gpus(replace(card, uuid="GPU-0", mig=False), card)
    whole, divided = source.list_gpus()
    assert whole.mig_profiles == ()
    found = {each.name: (each.compute, each.memory, each.mib, each.starts) for each in divided.mig_profiles}
    assert found == {
        "1g.10gb": (1, 1, 10240, (0, 1, 2, 3, 4, 5, 6)),
        "2g.20gb": (2, 2, 20480, (0, 2, 4)),
        "3g.40gb": (3, 4, 40960, (0, 4)),
        "4g.40gb": (4, 4, 40960, (0,)),
        "7g.80gb": (7, 8, 81920, (0,)),
    }

    def thrice(device, profile, found, count, ask=pynvml.nvmlDeviceGetGpuInstancePossiblePlacements):
        answer = ask(device, profile, found, count)
        for each in found or ():
            each.start, each.size = 3 * each.start, 3 * each.size
        return answer

    # As nvidia-smi prints them of an RTX PRO 6000: {0,3,6,9}:3 for a quarter of the card.
    monkeypatch.setattr(pynvml, "nvmlDeviceGetGpuInstancePossiblePlacements", thrice)
    assert source.list_gpus()[1].mig_profiles == divided.mig_profiles


def test_a_lost_gpu_is_listed_if_it_ever_answered_and_takes_no_other_away(node, source):
    node.write_gpus(*LOST)
    with pytest.raises(GpuSourceError, match="nvmlDeviceGetHandleByIndex: GPU is lost"):
        source.list_gpus()
    node.write_gpus(LOST[0], SECOND)
    assert [gpu.uuid for gpu in source.list_gpus()] == ["GPU-1"]
    node.write_gpus(FIRST, LOST[1])
    assert [gpu.uuid for gpu in source.list_gpus()] == ["GPU-0", "GPU-1"]
    with pytest.raises(GpuSourceError, match="GPU is lost"):
        source.use_of("GPU-1")


@pytest.mark.parametrize(
    ("at_start", "since", "uuid"),
    [
        ((FIRST, SECOND), (FIRST, SECOND), "GPU-1"),
        ((FIRST, SECOND), (FIRST, LOST[1]), None),
        ((LOST[0], SECOND), (LOST[0], SECOND), "GPU-1"),
    ],
    ids=["it names its GPU", "of one that is lost since, none", "though another is lost"],
)
def test_an_event_is_seen_from_the_start(node, at_start, since, uuid):
    node.write_gpus(*at_start)
    with contextlib.closing(node.open_driver()) as source:
        node.write_gpus(*since, events=(Xid("GPU-1", 79),))
        assert source.wait_for_event(0) == HealthEvent(uuid, 79)
        assert source.wait_for_event(0) is None


def test_after_an_error_of_waiting_all_gpus_are_watched_by_a_new_set(node, source):
    events = WaitError(pynvml.NVML_ERROR_UNKNOWN), Xid("GPU-0", 79), Xid("GPU-1", 79)
    node.write_gpus(FIRST, SECOND, events=events[:1])
    with pytest.raises(GpuSourceError, match="waiting for events: Unknown Error"):
        source.wait_for_event(0)
    assert source.wait_for_event(0) is None
    node.write_gpus(FIRST, SECOND, events=events)
    assert [source.wait_for_event(0) for _ in range(2)] == [
        HealthEvent("GPU-0", 79),
        HealthEvent("GPU-1", 79),
    ]


NO_EVENTS = replace(FIRST, events=pynvml.NVML_ERROR_NOT_SUPPORTED)
BROKEN_EVENTS = replace(FIRST, events=pynvml.NVML_ERROR_UNKNOWN)
XID_48 = Xid("GPU-1", 48)


def test_a_gpu_without_events_is_healthy_and_says_so(node):
    node.write_gpus(NO_EVENTS, SECOND)
    with contextlib.closing(node.open_driver()) as source:
        condition = source.condition_of("GPU-0")
        assert (condition.tells_xids, condition.why_unhealthy) == (False, None)
        assert source.condition_of("GPU-1").tells_xids
        node.write_gpus(NO_EVENTS, SECOND, events=(XID_48,))
        assert source.wait_for_event(0) == HealthEvent("GPU-1", 48)


def test_a_gpu_whose_events_cannot_be_watched_is_unhealthy_until_they_can_and_the_others_are_watched(
    node, monkeypatch
):
    monkeypatch.setattr("agent.nvml.WAITS_UNTIL_TRIED", 3)
    node.write_gpus(BROKEN_EVENTS, SECOND)
    # The library refuses to wait for a set in which a GPU could not be entered.
    with contextlib.closing(node.open_driver()) as source:
        assert source.wait_for_event(0) is None
        condition, why = source.condition_of("GPU-0"), "its errors cannot be watched: Unknown Error"
        assert (condition.tells_xids, condition.why_unhealthy) == (False, why)
        assert source.condition_of("GPU-1").why_unhealthy is None
        node.write_gpus(BROKEN_EVENTS, SECOND, events=(XID_48,))
        assert source.wait_for_event(0) == HealthEvent("GPU-1", 48)
        node.write_gpus(FIRST, SECOND, events=(XID_48,))
        assert source.wait_for_event(0) is None
        assert source.condition_of("GPU-0") == GpuCondition(answers=True)
        node.write_gpus(FIRST, SECOND, events=(XID_48, Xid("GPU-0", 79)))
        assert source.wait_for_event(0) == HealthEvent("GPU-0", 79)


def test_nothing_that_is_waited_for_is_freed_when_the_source_closes(node, monkeypatch):
    # The library refuses that.
    source, waits, wait = node.open_driver(), threading.Event(), pynvml.nvmlEventSetWait_v2
    monkeypatch.setattr(pynvml, "nvmlEventSetWait_v2", lambda *given: (waits.set(), wait(*given))[1])
    waiting = threading.Thread(target=source.wait_for_event, args=(0.2,))
    waiting.start()
    waits.wait()
    source.close()
    waiting.join()


@pytest.mark.parametrize(
    ("card", "condition"),
    [
        (SECOND, GpuCondition(answers=True)),
        (replace(SECOND, recovery=None), GpuCondition(answers=True)),
        (
            replace(SECOND, recovery=pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET),
            GpuCondition(answers=True, recovery="reset of the GPU"),
        ),
        (replace(SECOND, recovery=99), GpuCondition(answers=True, recovery="recovery action 99")),
        (replace(SECOND, mig=True), GpuCondition(answers=True, mig=True)),
        (LOST[1], GpuCondition(answers=False)),
    ],
)
def test_a_gpu_says_whether_it_answers_its_mode_and_what_its_driver_asks_for(node, source, card, condition):
    node.write_gpus(FIRST, card)
    assert source.condition_of("GPU-1") == condition
    assert source.condition_of("GPU-0") == GpuCondition(answers=True)


BUSY, STILL = RunningProcess(7, 64, 30), RunningProcess(8, 64)


def test_processes_whose_memory_the_driver_keeps_to_itself_count_none(node, source):
    processes = STILL, RunningProcess(9, None)
    node.write_gpus(replace(FIRST, used_mib=100, busy_percent=37, processes=processes), SECOND)
    found = ProcessUse(8, 64, 0), ProcessUse(9, 0, 0)
    assert source.use_of("GPU-0") == GpuUse(100, 37, found, knows_busy_processes=True)


@pytest.mark.parametrize(
    ("samples", "processes", "percents"),
    [
        *[(samples, (BUSY, STILL), [30, 0]) for samples in (OLD, NEW, OLD + NEW)],
        (0, (BUSY,), [None]),
        # A driver without samples says that no process ran, also where it calls that a success.
        *[(samples, (STILL,), [0]) for each in (OLD, NEW) for samples in (each, each + NONE_WITHOUT_ERROR)],
        # More than all of the time is garbage of a process that has ended.
        (NEW, (RunningProcess(7, 64, 101),), [None]),
    ],
)
def test_the_time_of_processes_is_read_by_the_function_that_the_driver_has(
    node, source, samples, processes, percents
):
    node.write_gpus(replace(FIRST, processes=processes, samples=samples), SECOND)
    found = source.use_of("GPU-0")
    assert [each.busy_percent for each in found.processes] == percents
    assert found.knows_busy_processes == (samples != 0)


def test_each_question_asks_for_the_time_since_the_one_before(node, source):
    node.write_gpus(replace(FIRST, processes=(RunningProcess(7, 64, 30, time.time_ns() // 1000),)))
    assert [source.use_of("GPU-0").processes[0].busy_percent for _ in range(2)] == [30, 0]


def test_kernels_of_a_process_that_has_ended_are_seen(node, source, monkeypatch):
    node.write_gpus(replace(FIRST, processes=(STILL, BUSY)))
    assert not source.use_of("GPU-0").others_ran
    running = pynvml.nvmlDeviceGetComputeRunningProcesses
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", lambda device: running(device)[:1])
    found = source.use_of("GPU-0")
    assert ([each.pid for each in found.processes], found.others_ran) == ([8], True)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (pynvml.NVML_SUCCESS, None),
        (pynvml.NVML_ERROR_NOT_FOUND, None),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, "GPU 0: nvmlDeviceGetMemoryLimits_v1: Function Not Found"),
        (pynvml.NVML_ERROR_NOT_SUPPORTED, "GPU 0: nvmlDeviceGetMemoryLimits_v1: Not Supported"),
    ],
)
def test_limits_by_the_driver_are_asked_for_by_reading_one(node, source, error, reason):
    node.write_gpus(FIRST, SECOND, limits=error)
    source.list_gpus()
    assert source.why_no_driver_limits() == f"{node.root / 'cgroup'} is not of version 2"
    node.take_control_groups_of_version_2()
    assert source.why_no_driver_limits() == reason
    node.write_gpus(replace(SECOND, uuid="GPU-0", mig=True), limits=error)
    with contextlib.closing(node.open_driver()) as in_mig_mode:
        in_mig_mode.list_gpus()
        assert in_mig_mode.why_no_driver_limits() is None


@pytest.mark.parametrize("folder", ["usr/lib64", "usr/lib/x86_64-linux-gnu"])
def test_a_library_that_no_runtime_put_in_is_found_below_the_drivers_root(node, folder, monkeypatch):
    file, tried = node.root / "driver" / folder / "libnvidia-ml.so.1", []

    def load(path):
        tried.append(path)
        if path != str(file):
            raise OSError(path)

    monkeypatch.setattr(ctypes, "CDLL", load)
    Nvml(driver_root=str(node.root / "driver")).close()
    assert tried[-1] == str(file)


def test_a_machine_without_a_driver_says_so(monkeypatch):
    monkeypatch.setattr(pynvml, "CDLL", mock.Mock(side_effect=OSError))
    with pytest.raises(GpuSourceError, match="there is no NVIDIA driver"):
        Nvml()
