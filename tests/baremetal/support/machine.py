"""Machines, queues and tasks for tests."""

from functools import cache

import msgspec

from agent.gpu import Gpu
from baremetal.machine import Machine
from baremetal.queues import read_queues
from baremetal.task import Submission, Task
from policies.loading.loader import load_policies
from service.options import DEFAULT_POLICIES

SEED = ("dual_gpus=2", "quarter_gpu=0.25", "half_gpu=0.5", "single_gpu=1")
"""The queues of the example."""


@cache
def policy():
    return load_policies(DEFAULT_POLICIES).resolve("default", None, None)


def cards(count, memory_mib=40960):
    return tuple(Gpu(index, f"GPU-{index}", "NVIDIA A100-SXM4-40GB", memory_mib) for index in range(count))


class Box:
    """A machine with what runs on it; cards are those of `cards`."""

    def __init__(self, given, queues=()):
        self.machine = Machine(name="box", cards=tuple(given), slices_per_gpu=8, queues=tuple(queues))
        self.running = {}

    def adopt(self, task):
        self.running[task.number] = task

    def release(self, number):
        del self.running[number]

    def free(self):
        return self.machine.free(self.running.values())

    def lose(self, *indices):
        """These cards, and no others, are out of service."""
        faults = {f"GPU-{index}": "lost" for index in indices}
        self.machine = msgspec.structs.replace(self.machine, faults=faults)

    def next_start(self, first, *queues):
        machine = msgspec.structs.replace(self.machine, queues=tuple(queues))
        return machine.next_start(self.running.values(), first)


def machine(count):
    return Box(cards(count))


def first(number, overtaken=0):
    return Task(number=number, submission=submission(), overtaken=overtaken)


def served(*texts, images=None):
    """Queues by the built-in policy."""
    return read_queues(texts, policy(), images or {})


def submission(queue="half_gpu", *command, folder="/", **more):
    return Submission(queue=queue, command=command or ("true",), folder=folder, **more)


def task(number=1, queue="half_gpu", indices=(0,), slices=4, **more):
    given = {"submission": submission(queue), "state": "running", "attempt": 1} | more
    gpus = tuple(f"GPU-{index}" for index in indices)
    return Task(number=number, gpus=gpus, indices=indices, slices=slices, slices_per_gpu=8, **given)


def held(number, slices, *indices, queue="q"):
    return task(number, queue, indices, slices)
