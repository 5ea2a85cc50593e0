"""Which slices of which card each task has: the only module here that knows the ledger. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agent.gpu import Gpu
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.ledger import Ledger
from ledger.placement_request import Placement, PlacementRequest, RequestedShare
from ledger.queue_names import sanitised
from ledger.view import LedgerView
from modes.facts import NodeFact, PodFact, PodKey
from modes.fraction import Fraction

NAMESPACE = "tasks"
"""Stands for the namespace that a pod would have."""


class Machine:
    """The cards of one machine as the ledger counts them.

    Args:
        name: of the machine.
        cards: that it gives.
        slices_per_gpu: into which each is divided.
    """

    def __init__(self, name: str, cards: Sequence[Gpu], slices_per_gpu: int) -> None:
        self._name = name
        self._cards = {card.index: card for card in cards}
        self._slices_per_gpu = slices_per_gpu
        self._out_of_service: frozenset[int] = frozenset()
        self._kept: frozenset[int] = frozenset()
        self._ledger = Ledger()
        self._write()

    def allocate(
        self, task: int, queue: str, fraction: Fraction, kept: Collection[int] = ()
    ) -> tuple[int, ...] | None:
        """Give a task its slices, and return the indices of their cards; None where there is no room now.

        Args:
            task: its number.
            queue: its name.
            fraction: its share.
            kept: cards that it must not get, although they are in service.
        """
        self._keep(frozenset(kept))
        found = self._ledger.place(PlacementRequest(RequestedShare(fraction, writes_limits=False)), 0.0)
        self._keep(frozenset())
        if not isinstance(found, Placement) or found.node is None:
            return None
        self.adopt(task, queue, fraction.slices_on_each, found.indices)
        return found.indices

    def adopt(self, task: int, queue: str, slices: int, indices: Sequence[int]) -> None:
        """Count what a task has, as one that runs since before; the inverse of `release`.

        Args:
            task: its number.
            queue: its name.
            slices: on each card.
            indices: of the cards.
        """
        gpus = tuple(sorted((index, slices) for index in indices))
        name = sanitised(queue)
        fact = PodFact(namespace=NAMESPACE, name=str(task), node=self._name, takes=gpus, queues=(name,))
        self._ledger.set_pod(fact)

    def release(self, task: int) -> None:
        """Take a task's slices back."""
        self._ledger.remove_pod(_key(task))

    def set_out_of_service(self, indices: Collection[int]) -> None:
        """Keep new tasks off these cards, and off no others."""
        self._out_of_service = frozenset(indices)
        self._write()

    def freest(self, count: int, but: Collection[int] = ()) -> tuple[int, ...]:
        """Return the cards in service with most free slices; none if there are fewer than `count`."""
        free = {index: slices for index, slices in self.free().items() if index not in but}
        in_service = sorted(free.keys() - self._out_of_service, key=lambda index: (-free[index], index))
        return tuple(in_service[:count]) if len(in_service) >= count else ()

    def free(self) -> dict[int, int]:
        """Return the free slices of each card; negative where more is held than there is."""
        node = self._ledger.node(self._name)
        gpus = node.gpus if node is not None else ()
        return {
            gpu.index: gpu.capacity - gpu.used
            for gpu in gpus
            if gpu.index is not None and gpu.index in self._cards
        }

    def view(self) -> LedgerView:
        """Return the machine as the ledger shows nodes."""
        return self._ledger.view()

    def _keep(self, kept: frozenset[int]) -> None:
        if kept != self._kept:
            self._kept = kept
            self._write()

    def _write(self) -> None:
        cards = [self._cards[index] for index in sorted(self._cards)]
        models = tuple(card.model.replace(" ", "-") for card in cards)
        memory = min((card.memory_mib for card in cards), default=0)
        fact = NodeFact(
            name=self._name,
            labels={GPU_MEMORY_LABEL: str(memory), GPU_PRODUCT_LABEL: models[0] if models else ""},
            gpus=tuple((card.index, self._slices_per_gpu) for card in cards),
            slices_per_gpu=self._slices_per_gpu,
            gpu_mib=memory,
            cards=tuple((card.index, card.memory_mib) for card in cards),
            card_models=models,
            card_numa=_numa_nodes(cards),
            agent="serving",
            cordoned=self._out_of_service | self._kept,
        )
        self._ledger.set_node(fact)


def _key(task: int) -> PodKey:
    return NAMESPACE, str(task)


def _numa_nodes(cards: Sequence[Gpu]) -> tuple[int, ...]:
    nodes = [card.numa_node for card in cards if card.numa_node is not None]
    return tuple(nodes) if len(nodes) == len(cards) and len(set(nodes)) > 1 else ()
