"""The total capacity of the nodes of one shape, updated as nodes join and leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from modes.facts import NodeFact
from modes.units import POOL, Unit, unit_of


class ShapeCapacity:
    """CPU, and slices by unit, that nodes with the same GPUs can allocate; cordoned GPUs are left out."""

    __slots__ = ("cpu_milli", "gpu_mib", "nodes", "others", "slices")

    def __init__(self, sample: NodeFact) -> None:
        self.gpu_mib = sample.gpu_mib or 0
        self.nodes = 0
        self.cpu_milli = 0
        self.slices: dict[int, int] = dict.fromkeys([index for index, _ in sample.gpus], 0)
        """Slices of GPUs by index."""
        self.others: Counter[Unit] = Counter()
        """All other units. The MIG instances of these nodes may differ."""

    @classmethod
    def of(cls, node: NodeFact, count: int = 1) -> ShapeCapacity:
        """The capacity of a node, or of several that offer the same."""
        capacity = cls(node)
        capacity._book(node, count)
        return capacity

    def only(self, indices: Collection[int], gpu_mib: int) -> ShapeCapacity:
        """Return the slices of only some GPUs, which have these MiB each."""
        part = ShapeCapacity.__new__(ShapeCapacity)
        part.gpu_mib, part.nodes, part.cpu_milli = gpu_mib, self.nodes, self.cpu_milli
        part.slices = {index: slices for index, slices in self.slices.items() if index in indices}
        part.others = Counter()
        return part

    def add(self, node: NodeFact) -> None:
        """Count a node; the inverse of `remove`."""
        self._book(node, 1)

    def remove(self, node: NodeFact) -> None:
        """Remove a node; the inverse of `add`."""
        self._book(node, -1)

    def _book(self, node: NodeFact, nodes: int) -> None:
        self.nodes += nodes
        self.cpu_milli += nodes * node.cpu_milli
        self.others[POOL] += nodes * node.pooled
        for number, count in node.instances:
            self.others[unit_of(number)] += nodes * count
        for index, slices in node.gpus:
            if index not in node.cordoned:
                self.slices[index] += nodes * slices
