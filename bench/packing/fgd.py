"""Fragmentation Gradient Descent, written anew from the paper (Weng et al., USENIX ATC '23)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from math import exp

from bench.packing.scored import Node, ScoredPolicy
from bench.packing.trace import GPU, TraceNode, TracePod

_TYPICAL_SHARE = 0.95
"""The paper's typical pods are the most frequent kinds that cover so much of the workload."""


class Typical:
    """The typical pods, and the GPU fragments that a node holds in their eyes."""

    def __init__(self, pods: Iterable[TracePod]) -> None:
        kinds = _typical(Counter((pod.gpus, pod.gpu_milli, pod.cpu_milli) for pod in pods))
        self.pods = sum(kinds.values())
        self._cpu_steps = sorted({cpu for _, _, cpu in kinds})
        self._by_gpu = self._shares_by_gpu(kinds)
        self._known: dict[tuple[tuple[int, ...], int], int] = {}

    def fragments(self, gpus: list[int], cpu: int) -> int:
        """Milli-GPU that typical pods cannot use on a node with this left, summed over the pods."""
        step = bisect_right(self._cpu_steps, cpu)
        key = (tuple(sorted(gpus)), step)
        if key not in self._known:
            self._known[key] = self._fragments(key[0], step)
        return self._known[key]

    def _fragments(self, gpus: tuple[int, ...], step: int) -> int:
        left, total = sum(gpus), 0
        for (count, milli), fitting in self._by_gpu.items():
            usable = sum(gpu for gpu in gpus if gpu >= milli)
            can_host = count and sum(gpu >= milli for gpu in gpus) >= count
            total += fitting[-1] * left - (fitting[step] * usable if can_host else 0)
        return total

    def _shares_by_gpu(self, kinds: dict[tuple[int, int, int], int]) -> dict[tuple[int, int], list[int]]:
        """Share of pods by their GPUs; entry i counts those that ask no more than the first i CPU steps."""
        shares: dict[tuple[int, int], list[int]] = {}
        for (count, milli, cpu), share in kinds.items():
            fitting = shares.setdefault((count, milli), [0] * (len(self._cpu_steps) + 1))
            for step in range(self._cpu_steps.index(cpu) + 1, len(fitting)):
                fitting[step] += share
        return shares


class Fgd(ScoredPolicy):
    """Takes the node, and the GPU, whose fragments grow least."""

    def __init__(self, nodes: Iterable[TraceNode], typical: Typical) -> None:
        super().__init__(nodes)
        self._typical = typical

    def score(self, node: Node, pod: TracePod) -> int | None:
        """Fragments before less fragments after, squeezed into whole numbers up to 100.

        So does the paper's implementation; without the many ties that this makes, each going to the first
        node, the policy stays a percent point below its published figure.
        """
        saved = self._typical.fragments(node.gpus, node.cpu) - min(self._after(node, pod))[0]
        return int(100 / (1 + exp(-saved / self._typical.pods / GPU)))

    def gpu(self, node: Node, pod: TracePod) -> int:
        """The GPU whose taking leaves the fewest fragments."""
        return min(self._after(node, pod))[1]

    def _after(self, node: Node, pod: TracePod) -> list[tuple[int, int]]:
        """Fragments after placing, with the first GPU taken, for each choice there is."""
        fitting = [position for position, left in enumerate(node.gpus) if left >= pod.gpu_milli]
        if pod.gpus == 0:
            choices: list[list[int]] = [[]]
        elif pod.gpu_milli < GPU:
            choices = [[position] for position in fitting]
        else:
            choices = [fitting[: pod.gpus]]
        return [
            (
                self._typical.fragments(_taken(node.gpus, chosen, pod.gpu_milli), node.cpu - pod.cpu_milli),
                sum(chosen[:1]),
            )
            for chosen in choices
        ]


def _taken(gpus: list[int], positions: list[int], milli: int) -> list[int]:
    left = list(gpus)
    for position in positions:
        left[position] -= milli
    return left


def _typical(kinds: Counter[tuple[int, int, int]]) -> dict[tuple[int, int, int], int]:
    total, covered = sum(kinds.values()), 0
    chosen: dict[tuple[int, int, int], int] = {}
    for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        if covered >= _TYPICAL_SHARE * total:
            break
        chosen[kind] = count
        covered += count
    return chosen
