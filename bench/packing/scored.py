"""Policies that give each node a score for a pod and take the best: the common machinery.

A node's score depends on nothing but the node and the pod, so scores are kept per kind of pod in a heap and
renewed only for nodes that have changed since.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.packing.trace import GPU, TraceNode, TracePod


@dataclass(slots=True)
class Node:
    """What is left of one node."""

    order: int
    cpu: int
    memory: int
    gpus: list[int]
    """Milli-GPU left of each GPU."""
    model: str = ""
    version: int = 0


def empty(nodes: Iterable[TraceNode]) -> list[Node]:
    """Return nodes with all that they have left."""
    return [
        Node(order, node.cpu_milli, node.memory_mib, [GPU] * node.gpus, node.model)
        for order, node in enumerate(nodes)
    ]


@dataclass(slots=True)
class _Heap:
    entries: list[tuple[int, int, int]] = field(default_factory=list)
    seen: int = 0
    """Position in the log of changes."""


class ScoredPolicy(ABC):
    """Places pods on the node with the highest score; of equals on the first."""

    def __init__(self, nodes: Iterable[TraceNode]) -> None:
        self.nodes = empty(nodes)
        self._heaps: dict[tuple[int, int, int, tuple[str, ...]], _Heap] = {}
        self._log: list[int] = []

    @abstractmethod
    def score(self, node: Node, pod: TracePod) -> int | None:
        """How good the node is for the pod, None if its GPUs or CPU have no room."""

    @abstractmethod
    def gpu(self, node: Node, pod: TracePod) -> int:
        """Position of the GPU for a pod that asks a part of one."""

    def place(self, pod: TracePod) -> bool:
        """Place a pod for good; False if no node has room."""
        node = self._best(pod)
        if node is None:
            return False
        for position in self._positions(node, pod):
            node.gpus[position] -= pod.gpu_milli
        node.cpu -= pod.cpu_milli
        node.memory -= pod.memory_mib
        node.version += 1
        self._log.append(node.order)
        return True

    def _positions(self, node: Node, pod: TracePod) -> list[int]:
        if pod.gpus == 1 and pod.gpu_milli < GPU:
            return [self.gpu(node, pod)]
        return [position for position, left in enumerate(node.gpus) if left >= pod.gpu_milli][: pod.gpus]

    def _best(self, pod: TracePod) -> Node | None:
        heap = self._renewed(pod)
        short_of_memory: list[tuple[int, int, int]] = []
        found = None
        while heap.entries and found is None:
            entry = heapq.heappop(heap.entries)
            node = self.nodes[entry[1]]
            if node.version != entry[2]:
                continue
            short_of_memory.append(entry)
            found = node if node.memory >= pod.memory_mib else None
        for entry in short_of_memory:
            heapq.heappush(heap.entries, entry)
        return found

    def _renewed(self, pod: TracePod) -> _Heap:
        key = (pod.cpu_milli, pod.gpus, pod.gpu_milli, pod.models)
        heap = self._heaps.get(key)
        if heap is None:
            heap = self._heaps[key] = _Heap()
            changed: Iterable[int] = range(len(self.nodes))
        else:
            changed = set(self._log[heap.seen :])
        for order in changed:
            node = self.nodes[order]
            score = self.score(node, pod) if has_room(node, pod) else None
            if score is not None:
                heapq.heappush(heap.entries, (-score, order, node.version))
        heap.seen = len(self._log)
        return heap


def has_room(node: Node, pod: TracePod) -> bool:
    """Whether model, GPUs and CPU suffice; memory is looked at when a node is taken."""
    if node.cpu < pod.cpu_milli or (pod.models and node.model not in pod.models):
        return False
    return pod.gpus == 0 or sum(left >= pod.gpu_milli for left in node.gpus) >= pod.gpus
