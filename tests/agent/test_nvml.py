"""NVML as a source of GPUs, against a driver that answers as NVIDIA's library does. No GPU was at hand."""
# ruff: noqa: N802 - names are NVML's own

import types

import pynvml
import pytest

from agent import nvml
from agent.gpu import Gpu, GpuCondition, GpuSourceError, GpuUse, HealthEvent, ProcessUse

MIB = 1024 * 1024


class Driver:
    """Two GPUs behind NVML's functions.

    Attributes:
        lost: Indices of GPUs that do not answer.
        mig: Indices of GPUs in MIG mode.
        recovery: The driver's recovery action; None where it is too old to know the field.
        events: What waiting returns or raises, in this order; a timeout after them.
    """

    def __init__(self):
        self.lost, self.mig = set(), set()
        self.recovery = pynvml.NVML_GPU_RECOVERY_ACTION_NONE
        self.events = []
        self.registered = []
        self.limits_error, self.asked_of = None, []

    def uuid(self, index):
        return f"GPU-{index}"

    def nvmlInit(self):
        pass

    def nvmlShutdown(self):
        pass

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return self._answering(int(uuid[-1]))

    def nvmlDeviceGetUUID(self, index):
        return self.uuid(index)

    def nvmlDeviceGetName(self, index):
        return "NVIDIA H100"

    def nvmlDeviceGetMemoryInfo(self, index):
        self._answering(index)
        return types.SimpleNamespace(total=81559 * MIB + 5, used=100 * MIB + 5)

    def nvmlDeviceGetMigMode(self, index):
        if index == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(index in self.mig), 0]

    def nvmlDeviceGetPciInfo(self, index):
        return types.SimpleNamespace(busId=f"00000000:3{index}:00.0".upper())

    def nvmlDeviceGetUtilizationRates(self, index):
        return types.SimpleNamespace(gpu=37, memory=5)

    def nvmlDeviceGetComputeRunningProcesses(self, index):
        return [
            types.SimpleNamespace(pid=7, usedGpuMemory=64 * MIB),
            types.SimpleNamespace(pid=8, usedGpuMemory=None),
        ]

    def nvmlDeviceGetFieldValues(self, index, fields):
        assert fields == [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        if self.recovery is None:
            return [types.SimpleNamespace(nvmlReturn=pynvml.NVML_ERROR_NOT_SUPPORTED)]
        value = types.SimpleNamespace(uiVal=self.recovery)
        return [types.SimpleNamespace(nvmlReturn=pynvml.NVML_SUCCESS, value=value)]

    def nvmlEventSetCreate(self):
        self.registered.append([])
        return self.registered[-1]

    def nvmlDeviceRegisterEvents(self, index, kinds, events):
        assert kinds == pynvml.nvmlEventTypeXidCriticalError
        events.append(self._answering(index))

    def nvmlEventSetWait_v2(self, events, milliseconds):
        if not self.events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        event = self.events.pop(0)
        if isinstance(event, Exception):
            raise event
        return event

    def nvmlDeviceGetMemoryLimits_v1(self, index, limits):
        self.asked_of.append(limits.nameSpace)
        if self.limits_error is not None:
            raise pynvml.NVMLError(self.limits_error)

    def nvmlEventSetFree(self, events):
        pass

    def _answering(self, index):
        if index in self.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return index


@pytest.fixture
def driver(monkeypatch):
    driver = Driver()
    for name in dir(driver):
        if name.startswith("nvml"):
            # NVML's own name: a misspelled one would be an AttributeError here.
            monkeypatch.setattr(pynvml, name, getattr(driver, name))
    return driver


@pytest.fixture
def source(driver, tmp_path):
    for index, node in ((0, "1"), (1, "-1")):
        (tmp_path / f"0000:3{index}:00.0").mkdir()
        (tmp_path / f"0000:3{index}:00.0" / "numa_node").write_text(f"{node}\n")
    return nvml.Nvml(tmp_path, tmp_path / "cgroup")


def test_gpus_have_the_kernels_numa_node_and_whole_mib(source, driver):
    driver.mig = {1}
    assert source.list_gpus() == (
        Gpu(0, "GPU-0", "NVIDIA H100", 81559, numa_node=1),
        Gpu(1, "GPU-1", "NVIDIA H100", 81559, mig=True),
    )


def test_a_gpu_says_whether_it_was_put_into_mig_mode(source, driver):
    assert not source.condition_of("GPU-1").mig
    driver.mig = {1}
    assert source.condition_of("GPU-1") == GpuCondition(answers=True, mig=True)


def test_a_gpu_that_gets_lost_is_told_of_as_it_was(source, driver):
    before = source.list_gpus()
    driver.lost = {1}
    assert source.list_gpus() == before


def test_a_gpu_that_was_lost_before_does_not_take_the_others_away(source, driver):
    driver.lost = {0}
    assert [gpu.uuid for gpu in source.list_gpus()] == ["GPU-1"]


def test_a_driver_whose_gpus_are_all_lost_is_no_node_without_gpus(source, driver):
    driver.lost = {0, 1}
    with pytest.raises(GpuSourceError, match="nvmlDeviceGetMemoryInfo: GPU is lost"):
        source.list_gpus()


def test_an_event_names_its_gpu_and_xid(source, driver):
    driver.events = [types.SimpleNamespace(device=1, eventType=8, eventData=79)]
    assert source.wait_for_event(1) == HealthEvent("GPU-1", 79)
    assert source.wait_for_event(1) is None
    assert driver.registered == [[0, 1]]


def test_a_lost_gpu_does_not_keep_the_others_from_being_watched(source, driver):
    driver.lost = {0}
    assert source.wait_for_event(1) is None
    assert driver.registered == [[1]]


def test_after_an_error_of_waiting_all_gpus_are_watched_by_a_new_set(source, driver):
    driver.events = [pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)]
    with pytest.raises(GpuSourceError, match="waiting for events: Unknown Error"):
        source.wait_for_event(1)
    assert source.wait_for_event(1) is None
    assert driver.registered == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("action", "recovery"),
    [
        (pynvml.NVML_GPU_RECOVERY_ACTION_NONE, None),
        (pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET, "reset of the GPU"),
        (None, None),
        (99, "recovery action 99"),
    ],
)
def test_the_driver_says_what_it_asks_for(source, driver, action, recovery):
    driver.recovery = action
    assert source.condition_of("GPU-0") == GpuCondition(answers=True, recovery=recovery)


def test_a_lost_gpu_does_not_answer(source, driver):
    driver.lost = {1}
    assert source.condition_of("GPU-1") == GpuCondition(answers=False)
    assert source.condition_of("GPU-0").answers
    with pytest.raises(GpuSourceError, match="GPU is lost"):
        source.use_of("GPU-1")


def test_processes_whose_memory_the_driver_keeps_to_itself_count_none(source):
    assert source.use_of("GPU-0") == GpuUse(100, 37, (ProcessUse(7, 64), ProcessUse(8, 0)))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, None),
        (pynvml.NVML_ERROR_NOT_FOUND, None),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, "GPU 0: nvmlDeviceGetMemoryLimits_v1: Function Not Found"),
        (pynvml.NVML_ERROR_NOT_SUPPORTED, "GPU 0: nvmlDeviceGetMemoryLimits_v1: Not Supported"),
    ],
)
def test_limits_by_the_driver_are_asked_for_by_reading_one(source, driver, tmp_path, error, reason):
    source.list_gpus()
    assert source.why_no_driver_limits() == f"{tmp_path / 'cgroup'} is not of version 2"
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").touch()
    driver.limits_error = error
    assert source.why_no_driver_limits() == reason
    assert set(driver.asked_of) == {str(tmp_path / "cgroup")}
    assert len(driver.asked_of) == (1 if reason else 2)


def test_a_gpu_in_mig_mode_is_not_asked_for_limits_by_the_driver(source, driver, tmp_path):
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").touch()
    driver.mig = {1}
    source.list_gpus()
    assert source.why_no_driver_limits() is None
    assert len(driver.asked_of) == 1


def test_a_machine_without_a_driver_says_so():
    with pytest.raises(GpuSourceError, match="NVML: nvmlInit: NVML Shared Library Not Found"):
        nvml.Nvml()
