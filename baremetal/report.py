"""What a runner says of its machine, for commands that only read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from agent.gpu import Gpu
from baremetal.machine import Machine
from baremetal.task import Task


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """A machine and what its runner serves."""

    name: str
    cards: tuple[Gpu, ...]
    slices_per_gpu: int
    queues: tuple[tuple[str, str], ...]
    """Names and shares, in their order."""
    faults: dict[int, str] = {}
    """Why cards are out of service, by index."""
    warnings: tuple[str, ...] = ()
    """What an admin should know, such as that nothing limits processes."""

    def with_tasks(self, running: Iterable[Task]) -> Machine:
        """Return the machine with what runs on it."""
        machine = Machine(self.name, self.cards, self.slices_per_gpu)
        machine.set_out_of_service(self.faults)
        for task in running:
            machine.adopt(task.number, task.submission.queue, task.slices, task.indices)
        return machine


def usage(report: MachineReport, running: Sequence[Task]) -> str:
    """Return one line: how much of the machine is in use."""
    used = sum(task.slices * len(task.indices) for task in running)
    per_gpu, count = report.slices_per_gpu, len(report.cards)
    cards = f"{used / per_gpu:.4f}".rstrip("0").rstrip(".")
    return f"{cards} of {count} GPUs in use ({used} of {count * per_gpu} slices)"
