"""Made-up GPUs come from a file that is read again."""

import json

import pytest

from agent.gpu import Gpu, GpuCondition, GpuSourceError, GpuUse, HealthEvent, ProcessUse
from agent.gpu_file import GpuFile

CARD = {"index": 0, "uuid": "GPU-a", "model": "NVIDIA A100", "memoryMiB": 40960}


@pytest.fixture
def write(tmp_path):
    file = tmp_path / "gpus.json"

    def write(*gpus, events=()):
        fresh = tmp_path / "fresh"
        fresh.write_text(json.dumps({"gpus": gpus, "events": events}))
        fresh.rename(file)
        return file

    return write


def test_gpus_are_listed_by_index(write):
    other = {**CARD, "index": 1, "uuid": "GPU-b", "numaNode": 1, "mig": True}
    assert GpuFile(write(other, CARD)).list_gpus() == (
        Gpu(0, "GPU-a", "NVIDIA A100", 40960),
        Gpu(1, "GPU-b", "NVIDIA A100", 40960, numa_node=1, mig=True),
    )


def test_events_are_returned_once_and_those_of_before_the_start_never(write):
    old, new = {"uuid": "GPU-a", "xid": 1}, {"uuid": "GPU-a", "xid": 79}
    source = GpuFile(write(CARD, events=[old]))
    assert source.wait_for_event(0) is None
    write(CARD, events=[old, new, {"xid": 48}])
    assert source.wait_for_event(0) == HealthEvent("GPU-a", 79)
    assert source.wait_for_event(0) == HealthEvent(None, 48)
    assert source.wait_for_event(0) is None


def test_a_gpu_answers_until_it_is_lost(write):
    source = GpuFile(write({**CARD, "recovery": "reset of the GPU"}))
    assert source.condition_of("GPU-a") == GpuCondition(answers=True, recovery="reset of the GPU")
    assert source.condition_of("GPU-z") == GpuCondition(answers=False)
    write({**CARD, "lost": True})
    assert source.condition_of("GPU-a") == GpuCondition(answers=False)
    with pytest.raises(GpuSourceError, match="GPU-a does not answer"):
        source.use_of("GPU-a")


def test_use_names_processes(write):
    source = GpuFile(
        write({**CARD, "usedMiB": 9, "utilisationPercent": 50, "processes": [{"pid": 7, "usedMiB": 8}]})
    )
    assert source.use_of("GPU-a") == GpuUse(9, 50, (ProcessUse(7, 8),))


@pytest.mark.parametrize("text", ["", "{}", '{"gpus": [{"index": 0}]}', '{"gpus": [], "gpu": []}'])
def test_a_file_of_another_form_is_an_error_with_its_path(tmp_path, text):
    (tmp_path / "gpus.json").write_text(text)
    with pytest.raises(GpuSourceError, match=r"gpus\.json"):
        GpuFile(tmp_path / "gpus.json")


def test_a_driver_that_limits_is_made_up_if_the_file_says_so(write, tmp_path):
    assert GpuFile(write(CARD)).why_no_driver_limits() == "the GPUs are made up"
    (tmp_path / "gpus.json").write_text(json.dumps({"gpus": [CARD], "driverLimits": True}))
    assert GpuFile(tmp_path / "gpus.json").why_no_driver_limits() is None
