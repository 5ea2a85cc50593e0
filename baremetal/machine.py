"""The cards of one machine as a ledger counts them, and which waiting task gets some next. Pure.

Queues are asked in the order in which they are listed. Only the first task of a queue can start, so that none
overtakes another of its queue. A task of a later queue may overtake the first one of an earlier queue that
has no room, but not for ever: one that was overtaken `PATIENCE` times has the freest cards kept for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from agent.gpu import Gpu
from baremetal.queues import ServedQueue
from baremetal.task import Task
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.ledger import Ledger
from ledger.placement_request import Placement, PlacementRequest, RequestedShare
from modes.facts import NodeFact, PodFact
from modes.fraction import Fraction
from modes.units import POOL

NAMESPACE = "tasks"
"""Stands for the namespace that a pod would have."""
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
    """A task that has room now."""

    task: int
    queue: ServedQueue
    indices: tuple[int, ...]
    overtook: tuple[int, ...] = ()
    """First tasks of earlier queues that have no room."""


class Machine:
    """The cards, and the slices of them that tasks have.

    Args:
        name: of the machine.
        cards: that it gives.
        slices_per_gpu: into which each is divided.
    """

    def __init__(self, name: str, cards: Sequence[Gpu], slices_per_gpu: int) -> None:
        self._name = name
        self._cards = cards
        self._slices_per_gpu = slices_per_gpu
        self._out_of_service: frozenset[int] = frozenset()
        self._ledger = Ledger()
        self._write()

    def next_start(self, queues: Sequence[ServedQueue], first: Mapping[str, FirstInQueue]) -> Start | None:
        """Return the next task that has room; None if none has.

        Args:
            queues: in their order.
            first: by queue; queues without tasks are left out.
        """
        overtook: list[int] = []
        kept: set[int] = set()
        for queue in queues:
            if (head := first.get(queue.name)) is None:
                continue
            indices = self.find(queue.fraction, kept)
            if indices is not None:
                return Start(head.task, queue, indices, tuple(overtook))
            overtook.append(head.task)
            if head.overtaken >= PATIENCE:
                kept |= set(self._freest(queue.fraction.gpus, kept))
        return None

    def find(self, fraction: Fraction, kept: Collection[int] = ()) -> tuple[int, ...] | None:
        """Return the cards on which a share has room now; None if there are none.

        Args:
            fraction: the share.
            kept: cards that it must not get, although they are in service.
        """
        self._write(kept)
        found = self._ledger.place(PlacementRequest(RequestedShare(fraction, writes_limits=False)), 0.0)
        self._write()
        return found.indices if isinstance(found, Placement) and found.node is not None else None

    def adopt(self, task: Task) -> None:
        """Count what a task has; the inverse of `release`."""
        self._ledger.set_pod(_pod(self._name, task))

    def release(self, number: int) -> None:
        """Take a task's slices back."""
        self._ledger.remove_pod((NAMESPACE, str(number)))

    def set_out_of_service(self, indices: Collection[int]) -> None:
        """Keep new tasks off these cards, and off no others."""
        self._out_of_service = frozenset(indices)
        self._write()

    def free(self) -> dict[int, int]:
        """Return the free slices of each card; negative where more is held than there is."""
        node, given = self._ledger.node(self._name), {card.index for card in self._cards}
        gpus = node.gpus if node is not None else ()
        return {gpu.index: gpu.capacity - gpu.used for gpu in gpus if gpu.index in given}

    def _freest(self, count: int, but: Collection[int]) -> list[int]:
        """Return the cards in service with most free slices; none if there are fewer than `count`."""
        free = self.free()
        usable = sorted(free.keys() - self._out_of_service - set(but), key=lambda each: (-free[each], each))
        return usable[:count] if len(usable) >= count else []

    def _write(self, kept: Collection[int] = ()) -> None:
        cordoned = self._out_of_service.union(kept)
        self._ledger.set_node(_node(self._name, self._cards, self._slices_per_gpu, cordoned))


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """A machine and what its runner serves, for those who only read."""

    name: str
    cards: tuple[Gpu, ...]
    slices_per_gpu: int
    queues: dict[str, tuple[str, int]]
    """In their order: the share as it was written, and its slices."""
    faults: dict[int, str] = {}
    """Why cards are out of service, by index."""
    warnings: tuple[str, ...] = ()
    """What an admin should know, such as that nothing limits processes."""

    def facts(self, running: Iterable[Task], waiting: Iterable[Task]) -> tuple[NodeFact, list[PodFact]]:
        """Return the machine as a node, and its tasks as pods; waiting ones of other queues are left out."""
        node = _node(self.name, self.cards, self.slices_per_gpu, self.faults)
        found = [_pod(self.name, task) for task in running]
        known = [task for task in waiting if task.submission.queue in self.queues]
        return node, found + [_pod(None, task, self.queues[task.submission.queue][1]) for task in known]

    def ledger(self, running: Iterable[Task], waiting: Iterable[Task]) -> Ledger:
        """Return a ledger of them."""
        made, (node, pods) = Ledger(), self.facts(running, waiting)
        made.replace([node], pods)
        return made

    def usage(self, running: Iterable[Task]) -> str:
        """Return one line: how much of the machine is in use."""
        used = sum(task.slices * len(task.indices) for task in running)
        cards = f"{used / self.slices_per_gpu:.4f}".rstrip("0").rstrip(".")
        count = len(self.cards)
        return f"{cards} of {count} GPUs in use ({used} of {count * self.slices_per_gpu} slices)"


def _node(name: str, cards: Sequence[Gpu], slices_per_gpu: int, cordoned: Collection[int]) -> NodeFact:
    models = tuple(card.model.replace(" ", "-") for card in cards)
    memory = min((card.memory_mib for card in cards), default=0)
    numa = tuple(card.numa_node for card in cards if card.numa_node is not None)
    return NodeFact(
        name=name,
        labels={GPU_MEMORY_LABEL: str(memory), GPU_PRODUCT_LABEL: models[0] if models else ""},
        gpus=tuple((card.index, slices_per_gpu) for card in cards),
        slices_per_gpu=slices_per_gpu,
        gpu_mib=memory,
        cards=tuple((card.index, card.memory_mib) for card in cards),
        card_models=models,
        card_numa=numa if len(numa) == len(cards) and len(set(numa)) > 1 else (),
        agent="serving",
        cordoned=frozenset(cordoned),
    )


def _pod(node: str | None, task: Task, wanted: int = 0) -> PodFact:
    """Return a task as a pod: `wanted` are the slices for which it waits."""
    takes = tuple((index, task.slices) for index in sorted(task.indices)) if node else ((POOL, wanted),)
    queues = (task.submission.queue,)
    return PodFact(namespace=NAMESPACE, name=str(task.number), node=node, takes=takes, queues=queues)
