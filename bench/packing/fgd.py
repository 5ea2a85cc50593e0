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
    """The typical pods, and the GPU fragments that a node holds in their eyes.

    A pod that names other GPU models than the node's can use nothing there.
    """

    def __init__(self, pods: Iterable[TracePod]) -> None:
        self._kinds = _typical(Counter((pod.gpus, pod.gpu_milli, pod.cpu_milli, pod.models) for pod in pods))
        self.pods = sum(self._kinds.values())
        self._cpu_steps = sorted({cpu for _, _, cpu, _ in self._kinds})
        self._by_gpu: dict[str, dict[tuple[int, int], list[int]]] = {}
        self._known: dict[tuple[tuple[int, ...], int, str], int] = {}

    def fragments(self, gpus: list[int], cpu: int, model: str) -> int:
        """Milli-GPU that typical pods cannot use on a node with this left, summed over the pods."""
        step = bisect_right(self._cpu_steps, cpu)
        key = (tuple(sorted(gpus)), step, model)
        if key not in self._known:
            self._known[key] = self._fragments(*key)
        return self._known[key]

    def _fragments(self, gpus: tuple[int, ...], step: int, model: str) -> int:
        if model not in self._by_gpu:
            self._by_gpu[model] = self._shares_by_gpu(model)
        usable = 0
        for (count, milli), fitting in self._by_gpu[model].items():
            if count and sum(gpu >= milli for gpu in gpus) >= count:
                usable += fitting[step] * sum(gpu for gpu in gpus if gpu >= milli)
        return self.pods * sum(gpus) - usable

    def _shares_by_gpu(self, model: str) -> dict[tuple[int, int], list[int]]:
        """Pods for a model by their GPUs; entry i counts those that ask at most the first i CPU steps."""
        shares: dict[tuple[int, int], list[int]] = {}
        for (count, milli, cpu, models), share in self._kinds.items():
            fitting = shares.setdefault((count, milli), [0] * (len(self._cpu_steps) + 1))
            if not models or model in models:
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
        saved = self._typical.fragments(node.gpus, node.cpu, node.model) - min(self._after(node, pod))[0]
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
                self._typical.fragments(
                    _taken(node.gpus, chosen, pod.gpu_milli), node.cpu - pod.cpu_milli, node.model
                ),
                sum(chosen[:1]),
            )
            for chosen in choices
        ]


def _taken(gpus: list[int], positions: list[int], milli: int) -> list[int]:
    left = list(gpus)
    for position in positions:
        left[position] -= milli
    return left


_Kind = tuple[int, int, int, tuple[str, ...]]
"""GPUs, milli-GPU of each, milli-CPU, models named."""


def _typical(kinds: Counter[_Kind]) -> dict[_Kind, int]:
    total, covered = sum(kinds.values()), 0
    chosen: dict[_Kind, int] = {}
    for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        if covered >= _TYPICAL_SHARE * total:
            break
        chosen[kind] = count
        covered += count
    return chosen
