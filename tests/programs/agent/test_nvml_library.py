"""The library with NVML's ABI that NVIDIA's programs use, by NVIDIA's own bindings for Python.

The functions in Python that most tests of the agent use instead give the same answers.
"""

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
    NONE_WITHOUT_ERROR,
    SAMPLES_OF_NEW,
    SAMPLES_OF_OLD,
    Card,
    MigInstance,
    NvmlNode,
    RunningProcess,
    WaitError,
    Xid,
)
from tests.agent.support.nvml_library import NvmlLibrary, in_use
from tests.programs.agent import processes

A100 = Card("GPU-a", reserved_mib=583, used_mib=100, busy_percent=37, processes=(RunningProcess(7, 64),))
T4 = Card("GPU-b", "Tesla T4", minor=1, memory_mib=16384, mig=None, capability="7.5", recovery=None)
INSTANCES = MigInstance("MIG-1", 1, 3, 20096), MigInstance("MIG-2", 2, 1, 4864)


@contextmanager
def driver_of(cards: Path) -> Iterator[None]:
    """Have this process use the library too, and read a file of cards."""
    with processes.driver_of(cards), in_use(None):
        library.load()
        yield


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
    **{
        f"no sample by {function}": NvmlNode((replace(A100, samples=function + NONE_WITHOUT_ERROR), T4))
        for function in (SAMPLES_OF_OLD, SAMPLES_OF_NEW)
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
    return [*found, *[answered(source.wait_for_event, 0) for _ in range(6)]]


@pytest.mark.parametrize("what", CHANGES)
def test_the_functions_in_python_answer_the_agent_as_the_library_does(tmp_path, what):
    file, in_python = tmp_path / "cards", NvmlLibrary()
    (tmp_path / "cgroup.controllers").touch()

    def take(node):
        node.write(file)
        in_python.node = node

    def ask():
        take(NvmlNode((A100, T4)))
        source = Nvml(tmp_path, tmp_path)
        take(CHANGES[what])
        found = answers(source, tmp_path / "kubepods" / "one")
        source.close()
        return found

    with in_use(in_python):
        by_python = ask()
    with driver_of(file):
        assert by_python == ask()
