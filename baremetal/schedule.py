"""Which waiting task starts next, and on which cards. Pure.

Queues are asked in the order in which they are listed. Only the first task of a queue can start, so that none
overtakes another of its queue. A task of a later queue may overtake the first one of an earlier queue that
has no room, but not for ever: one that was overtaken `PATIENCE` times has the freest cards kept for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from baremetal.machine import Machine
from baremetal.queues import ServedQueue

PATIENCE = 16
"""Starts of later queues that a waiting task lets pass, until cards are kept for it."""


@dataclass(frozen=True, slots=True)
class FirstInQueue:
    """The task of a queue that starts next."""

    task: int
    overtaken: int = 0
    """Tasks of later queues that started while this one was first and had no room."""


@dataclass(frozen=True, slots=True)
class Start:
    """A task that starts now; the machine counts its slices already."""

    task: int
    queue: ServedQueue
    indices: tuple[int, ...]
    overtook: tuple[int, ...]
    """First tasks of earlier queues that have no room."""


def next_start(
    queues: Sequence[ServedQueue], first: Mapping[str, FirstInQueue], machine: Machine
) -> Start | None:
    """Return the next start, with its slices allocated; None if nothing that waits has room.

    Args:
        queues: in their order.
        first: by queue; queues without tasks are left out.
        machine: gives the slices.
    """
    overtook: list[int] = []
    kept: set[int] = set()
    for queue in queues:
        head = first.get(queue.name)
        if head is None:
            continue
        indices = machine.allocate(head.task, queue.name, queue.fraction, kept)
        if indices is not None:
            return Start(head.task, queue, indices, tuple(overtook))
        overtook.append(head.task)
        if head.overtaken >= PATIENCE:
            kept |= set(machine.freest(queue.cards, kept))
    return None
