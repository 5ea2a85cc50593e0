"""The cards of one machine, and which waiting task gets some next. Pure.

Queues are asked in the order in which they are listed. Only the first task of a queue can start, so that none
overtakes another of its queue. A task of a later queue may overtake the first one of an earlier queue that
has no room, but not for ever: one that was overtaken `PATIENCE` times has the freest cards kept for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from agent.gpu import Gpu
from baremetal.queues import ServedQueue
from baremetal.task import Task
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.ledger import Ledger
from modes.facts import NodeFact, PodFact
from modes.units import POOL, Amounts

NAMESPACE = "tasks"
"""Stands for the namespace that a pod would have."""
PATIENCE = 16
"""Starts of later queues that a waiting task lets pass, until cards are kept for it."""


@dataclass(frozen=True, slots=True)
class Start:
    """A task that has room now."""

    task: int
    queue: ServedQueue
    cards: tuple[Gpu, ...]
    overtook: tuple[int, ...] = ()
    """First tasks of earlier queues that have no room."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The cards that a runner gives, and the queues that it serves; the store keeps it for those who read."""

    name: str
    cards: tuple[Gpu, ...]
    """That the driver lists."""
    slices_per_gpu: int
    queues: tuple[ServedQueue, ...]
    """In their order."""
    numbers: dict[int, str] = {}
    """UUID of the card that a number of `--gpus` means, also of lost ones."""
    faults: dict[str, str] = {}
    """One line for each card that is out of service, by UUID."""
    warnings: tuple[str, ...] = ()
    """What an admin should know, such as that nothing limits processes."""

    def next_start(self, running: Iterable[Task], first: Mapping[str, Task]) -> Start | None:
        """Return the next task that has room, on the fullest cards that hold it; None if none has.

        `running` have slices. `first` has the task of each queue that starts next, if it has tasks.
        """
        free, overtook = self.free(running), list[int]()
        cards = [card for card in self.cards if card.uuid not in self.faults]
        for queue in self.queues:
            if (task := first.get(queue.name)) is None:
                continue
            count, slices = queue.fraction.gpus, queue.fraction.slices_on_each
            cards.sort(key=lambda card: (free[card.index], card.index))
            if len(fitting := [card for card in cards if free[card.index] >= slices]) >= count:
                return Start(task.number, queue, tuple(fitting[:count]), tuple(overtook))
            overtook.append(task.number)
            if task.overtaken >= PATIENCE and count <= len(cards):
                cards = cards[:-count]  # the freest are kept for it
        return None

    def free(self, running: Iterable[Task]) -> dict[int, int]:
        """Return the free slices of each card."""
        free = {card.index: self.slices_per_gpu for card in self.cards}
        for task in running:
            for index in free.keys() & task.indices:
                free[index] -= self.slices_of(task)
        return free

    def write_to(self, ledger: Ledger, running: Iterable[Task], waiting: Iterable[Task]) -> None:
        """Replace what a ledger has; waiting tasks of queues that are not served are left out."""
        slices = {queue.name: queue.fraction.slices for queue in self.queues}
        held = [(task, self.slices_of(task)) for task in running]
        pods = [_pod(task, self.name, tuple([(at, each) for at in task.indices])) for task, each in held]
        known = [task for task in waiting if task.submission.queue in slices]
        pods += [_pod(task, None, ((POOL, slices[task.submission.queue]),)) for task in known]
        ledger.replace([self._node()], pods)

    def slices_of(self, task: Task) -> int:
        """Return the slices of each card that a task holds, also of one that began when cards had others."""
        return -(-task.slices * self.slices_per_gpu // task.slices_per_gpu)

    def usage(self, running: Iterable[Task]) -> str:
        """Return one line: how much of the machine is in use."""
        used, count = sum(self.slices_of(task) * len(task.indices) for task in running), len(self.cards)
        slices = f"{used} of {count * self.slices_per_gpu} slices"
        return f"{used / self.slices_per_gpu:g} of {count} GPUs in use ({slices})"

    def _node(self) -> NodeFact:
        cards, slices = self.cards, self.slices_per_gpu
        models = tuple(card.model.replace(" ", "-") for card in cards)
        memory = min((card.memory_mib for card in cards), default=0)
        return NodeFact(
            name=self.name,
            labels={GPU_MEMORY_LABEL: str(memory), GPU_PRODUCT_LABEL: models[0] if models else ""},
            gpus=tuple((card.index, slices) for card in cards),
            slices_per_gpu=slices,
            gpu_mib=memory,
            cards=tuple((card.index, card.memory_mib) for card in cards),
            card_models=models,
            agent="serving",
            cordoned=frozenset(card.index for card in cards if card.uuid in self.faults),
        )


def _pod(task: Task, node: str | None, takes: Amounts) -> PodFact:
    name, queues = str(task.number), (task.submission.queue,)
    return PodFact(namespace=NAMESPACE, name=name, node=node, takes=takes, queues=queues)
