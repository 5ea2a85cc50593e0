"""Machines, queues and tasks for tests."""

from functools import cache

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
    """The built-in policy."""
    return load_policies(DEFAULT_POLICIES).resolve("default", None, None)


def cards(count, memory_mib=40960):
    """So many equal cards."""
    return tuple(Gpu(index, f"GPU-{index}", "NVIDIA A100-SXM4-40GB", memory_mib) for index in range(count))


def machine(count):
    """A machine of so many cards, in eighths."""
    return Machine("box", cards(count), 8)


def served(*texts, images=None):
    """Queues by the built-in policy."""
    return read_queues(texts, policy(), images or {})


def submission(queue="half_gpu", *command, **more):
    """What somebody submits."""
    return Submission(queue=queue, command=command or ("true",), folder="/", **more)


def task(number=1, queue="half_gpu", indices=(0,), slices=4, **more):
    """A task that has its cards."""
    given = {"submission": submission(queue), "state": "running", "attempt": 1} | more
    return Task(number=number, indices=indices, slices=slices, slices_per_gpu=8, **given)


def held(number, slices, *indices, queue="q"):
    """A task that has slices of cards."""
    return task(number, queue, indices, slices)


def given(box, number, fraction, kept=()):
    """The cards that a task gets of a machine, which counts them; None if it has no room."""
    indices = box.find(fraction, kept)
    if indices is not None:
        box.adopt(held(number, fraction.slices_on_each, *indices))
    return indices
