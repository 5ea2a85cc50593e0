"""Run with `python -m bench.packing.waits`: how long pods wait for a card, by who chooses it, and when.

Pods arrive at 95 % load on 16 equal nodes of 8 GPUs, and live for exponential times. When one ends, those
that wait are tried in the order of their arrival. The reference is perfect late binding: best fit over all
cards. In mode `per-gpu` the product's ledger chooses a pod's indices at admission. In mode `dra` a model of
the scheduler takes the first cards with room of the node that its profile prefers, by default the least
allocated one; pods request CPU in proportion to GPUs.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import mean, quantiles
from typing import Annotated, Any

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from bench.packing.mixed import EIGHTHS, SLICES, Arrival, Mix, MixedCluster, MixedPod, equal, sizes
from bench.packing.mixed_rules import FirstFit, FullestGpu, Scanning, Taken, node_fact, request_for
from bench.packing.regimes import LOAD, SEEDS, WARM_UP, Rule, Stream
from ledger.ledger import Ledger
from ledger.placement_request import Placement
from modes.facts import PodFact

SHARES = "at most one GPU"
MIXES = {SHARES: sizes(s1=10, s2=20, s3=5, s4=20, s6=5, g1=25), "also several GPUs": EIGHTHS}
PER_GPU = Bar("<=", 1.6)
"""Mean of the first mix. In the second, pods of several GPUs wait the longer the longer the run is."""


class LeastAllocated(FirstFit):
    """The scheduler by default: the node with the most free slices, and there the first cards with room."""

    prefers = max

    def best(self, fitting: Iterable[tuple[int, int]], pod: MixedPod) -> Taken:
        """The preferred node."""
        return super().best([type(self).prefers(fitting, key=lambda each: sum(self.free[each[0]]))], pod)


class MostAllocated(LeastAllocated):
    """The scheduler with NodeResourcesFit's strategy MostAllocated."""

    prefers = min


class IndexAtAdmission:
    """The product's ledger, and a scheduler that binds to a node where the pod's indices have room."""

    def __init__(self, cluster: MixedCluster) -> None:
        self._ledger = Ledger(most_reservations=1)
        self._ledger.replace([node_fact(node) for node in cluster.nodes], [])
        self._free = {node.name: [SLICES] * node.gpus for node in cluster.nodes}
        self._takes: dict[str, tuple[tuple[int, int], ...]] = {}

    def take(self, name: str, pod: MixedPod) -> tuple[str, str] | None:
        """Bind a pod; None while its indices have no room. The first call is its admission."""
        takes = self._takes.get(name)
        if takes is None:
            answer = self._ledger.place(request_for(pod, name), 0.0)
            assert isinstance(answer, Placement)
            takes = self._takes[name] = tuple([(index, pod.slices) for index in answer.indices])
            node = answer.node
        elif (node := self._with_room(takes)) is None:
            return None
        fact = PodFact(namespace="default", name=name, node=node, takes=takes, reservation=name)
        self._ledger.set_pod(fact)
        return self._changed((node, name), -1) if node is not None else None

    def give_back(self, taken: tuple[str, str]) -> None:
        """Delete the pod."""
        self._ledger.remove_pod(("default", taken[1]))
        self._changed(taken, 1)

    def _with_room(self, takes: Sequence[tuple[int, int]]) -> str | None:
        fitting = {
            name: sum(free)
            for name, free in self._free.items()
            if all(free[index] >= slices for index, slices in takes)
        }
        return max(fitting, key=fitting.__getitem__, default=None)

    def _changed(self, taken: tuple[str, str], sign: int) -> tuple[str, str]:
        for index, slices in self._takes[taken[1]]:
            self._free[taken[0]][index] += sign * slices
        return taken


BEST = "perfect late binding"
SUBJECTS: Mapping[str, type[Scanning | IndexAtAdmission]] = {
    "per-gpu": IndexAtAdmission,
    "dra": LeastAllocated,
    "dra, MostAllocated": MostAllocated,
    BEST: FullestGpu,
}


def waits(rule: Rule, arrivals: Sequence[Arrival]) -> list[float]:
    """Return how long each pod that came after the warm-up waited, in mean lives."""
    ends: list[tuple[float, int, Any]] = []
    waiting: dict[int, Arrival] = {}
    waited: list[float] = []

    def bind(numbers: Iterable[int], now: float) -> None:
        for number in numbers:
            each = waiting[number]
            if (taken := rule.take(each.name, each.pod)) is not None:
                del waiting[number]
                heapq.heappush(ends, (now + each.lasts, number, taken))
                waited.extend([now - each.at] if each.at >= WARM_UP else [])

    def end_until(now: float) -> None:
        while ends and ends[0][0] <= now:
            at, _, taken = heapq.heappop(ends)
            rule.give_back(taken)
            bind(list(waiting), at)

    for number, each in enumerate(arrivals):
        end_until(each.at)
        waiting[number] = each
        bind([number], each.at)
    end_until(inf)
    return waited


def measure(mix: Mix, seed: int, lives: float) -> dict[str, tuple[float, float]]:
    """Return mean and 95th percentile of the waits for each subject; the same pods arrive for each."""
    cluster = equal(16)
    rng = random.Random(f"waits {seed}")  # noqa: S311 - a repeatable experiment, no secret
    arrivals = Stream([(lives, mix, LOAD)]).arrivals(cluster, rng)
    found = {name: waits(subject(cluster), arrivals) for name, subject in SUBJECTS.items()}
    return {name: (mean(each), quantiles(each, n=20)[-1]) for name, each in found.items()}


def main(
    seeds: Annotated[int, typer.Option(help="Streams of pods of each mix.")] = len(SEEDS),
    lives: Annotated[float, typer.Option(help="Mean lives in which pods arrive, more than 3.")] = 30,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Compare the waits of both modes with those of perfect late binding."""
    watch, figures = Watch(), list[Figure]()
    for mix, pods in MIXES.items():
        found = [measure(pods, seed, lives) for seed in range(SEEDS.start, SEEDS.start + seeds)]
        for name in [name for name in SUBJECTS if name != BEST]:
            for at, what in enumerate(("mean wait", "95th percentile")):
                values, best = ([each[of][at] for each in found] for of in (name, BEST))
                bar = PER_GPU if (mix, name, at) == (SHARES, "per-gpu", 0) else None
                figures.append(Figure(f"{mix}: {name}, {what}", "mean lives", values, BEST, best, bar))
    report("waits", figures, watch, json_file)


if __name__ == "__main__":
    typer.run(main)
