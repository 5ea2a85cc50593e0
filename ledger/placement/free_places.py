"""The places for pods in the free slices of nodes, and what free slices are worth by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ledger.placement.packing import UNIT
from ledger.placement.shadow_prices import Gaps, ShadowPrices, Size


class FreePlaces:
    """The places in the free slices of some nodes: each is room for one pod."""

    def __init__(self, slices_per_gpu: int) -> None:
        self._per_gpu = slices_per_gpu
        self._gaps = [0] * (slices_per_gpu + 1)
        """GPUs by their free slices."""
        self._idle: Counter[int] = Counter()
        """Nodes by their idle GPUs."""
        self._of: dict[Size, int] = {}

    def add(self, free: Sequence[int], nodes: int) -> None:
        """Add nodes whose GPUs have these free slices."""
        most = self._per_gpu
        for slices in free:
            self._gaps[min(slices, most)] += nodes
        self._idle[free.count(most)] += nodes

    @property
    def slices(self) -> int:
        """All free slices."""
        return sum([slices * gpus for slices, gpus in enumerate(self._gaps)])

    def of(self, size: Size) -> int:
        """Return how many pods of one size have room, if no others come."""
        places = self._of.get(size)
        if places is None:
            slices, gpus = size
            if gpus == 1:
                places = sum([free // slices * count for free, count in enumerate(self._gaps)])
            else:
                places = sum([idle // gpus * nodes for idle, nodes in self._idle.items()])
            self._of[size] = places
        return places


def worth_to(
    demand: Mapping[Size, float], slices_per_gpu: int, gpus: int, cpu: tuple[int, ...]
) -> ShadowPrices:
    """Return what free slices are worth to pods of some sizes.

    Args:
        demand: what one place for a pod of each size is worth, in slices.
        slices_per_gpu: slices of one GPU.
        gpus: GPUs of a node.
        cpu: what one milli-CPU serves.
    """
    gpu, idle = [0.0] * (slices_per_gpu + 1), [0.0] * (gpus + 1)
    for (slices, several), price in demand.items():
        if several == 1:
            for free in range(slices, slices_per_gpu + 1):
                gpu[free] += price * (free // slices)
        else:
            for count in range(several, gpus + 1):
                idle[count] += price * (count // several)
    worth = tuple([round(price * UNIT) for price in gpu])
    together = tuple([round(price * UNIT) for price in idle])
    return ShadowPrices(slices_per_gpu, worth, Gaps(worth), together, cpu)
