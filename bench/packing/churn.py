"""Run with `python -m bench.packing.churn`: what is refused where pods come and go.

Pods arrive as much as 95 % of all slices can hold; one that finds no room is refused for good. Compared is
the share of the slices asked for that is refused, on the same arrivals: by the ledger, by the first GPU with
room, by the GPU with the least room that suffices, and by FGD knowing the sizes that will come. The floor is
what a cluster refuses whose free slices could always be moved together (Kaufman and Roberts' recursion).

Even rules that are equally good differ in a single stream. By how much is measured in the same run, with best
fit and a twin of it that takes any of the GPUs between which best fit has no preference. By no more than that
may ours be behind in a stream; in the mean of all it may not be behind at all.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from statistics import mean
from typing import Annotated, Protocol

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from bench.packing.arriving import GPUS, LOAD, SLICES, USUAL, Job, eighths, empty_ledger, jobs
from ledger.placement_request import Placement

NODES, TURNOVERS, WARM_UP = 100, 100, 0.1
MIXES: Mapping[str, Mapping[int, int]] = {
    "sizes 1,2,3,4,6,8": USUAL,
    "sizes 1 to 8": dict.fromkeys(range(1, 9), 1),
    "sizes 2,3,5": dict.fromkeys((2, 3, 5), 1),
    "sizes 3,4,5": dict.fromkeys((3, 4, 5), 1),
    "sizes of openb": {1: 31, 2: 274, 3: 392, 4: 897, 5: 147, 6: 250, 7: 1069, 8: 3888},
}
REFERENCES = ("first fit", "best fit", "FGD")


class Cluster(Protocol):
    """Where pods are placed and leave."""

    def take(self, job: Job) -> object | None:
        """Place a pod; None if there is no room, else what `give_back` wants."""

    def give_back(self, taken: object) -> None:
        """Let a pod go."""


class Ours:
    """The product's ledger, asked with reservations, so that it learns."""

    def __init__(self, nodes: int) -> None:
        self._ledger = empty_ledger(nodes)

    def take(self, job: Job) -> object | None:
        """Reserve; what only waits is given back at once."""
        answer = self._ledger.place(eighths(job.slices, job.name), 0.0)
        assert isinstance(answer, Placement)
        if answer.node is None:
            self._ledger.release(job.name)
            return None
        return job.name

    def give_back(self, taken: object) -> None:
        """End the reservation."""
        assert isinstance(taken, str)
        self._ledger.release(taken)


class ByGap:
    """A rule that knows single GPUs by the room that they have, and takes the first of the best room."""

    def __init__(self, nodes: int) -> None:
        self._free = [SLICES] * (nodes * GPUS)
        self._with_room = [set[int]() for _ in range(SLICES)] + [set(range(nodes * GPUS))]

    def gap(self, slices: int, gaps: Sequence[int]) -> int:
        """Which room to take so many slices of; `gaps` are those that suffice and that some GPU has."""
        raise NotImplementedError

    def gpu(self, equal: AbstractSet[int]) -> int:
        """Which of the GPUs with the chosen room: the first."""
        return min(equal)

    def take(self, job: Job) -> object | None:
        """Place a pod on a GPU with the chosen room."""
        gaps = [room for room in range(job.slices, SLICES + 1) if self._with_room[room]]
        if not gaps:
            return None
        gpu = self.gpu(self._with_room[self.gap(job.slices, gaps)])
        self._change(gpu, -job.slices)
        return gpu, job.slices

    def give_back(self, taken: object) -> None:
        """Let a pod go."""
        assert isinstance(taken, tuple)
        self._change(*taken)

    def _change(self, gpu: int, slices: int) -> None:
        self._with_room[self._free[gpu]].remove(gpu)
        self._free[gpu] += slices
        self._with_room[self._free[gpu]].add(gpu)


class FirstFit(ByGap):
    """The first GPU with room."""

    def gap(self, _slices: int, gaps: Sequence[int]) -> int:
        """The room of the first GPU that has enough."""
        return min(gaps, key=lambda room: min(self._with_room[room]))


class BestFit(ByGap):
    """The GPU with the least room that suffices."""

    def gap(self, _slices: int, gaps: Sequence[int]) -> int:
        """The least."""
        return gaps[0]


class TwinOfBestFit(BestFit):
    """The same, but takes any of the GPUs with that room, by chance."""

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._rng = random.Random(nodes)  # noqa: S311 - a repeatable experiment, no secret

    def gpu(self, equal: AbstractSet[int]) -> int:
        """Any, by chance."""
        return self._rng.choice(sorted(equal))


class Fgd(ByGap):
    """The GPU whose fragments, in the eyes of the pods that come, grow least."""

    def __init__(self, nodes: int, sizes: Mapping[int, int]) -> None:
        super().__init__(nodes)
        self._usable = [
            room * sum(weight for size, weight in sizes.items() if size <= room) / sum(sizes.values())
            for room in range(SLICES + 1)
        ]

    def gap(self, slices: int, gaps: Sequence[int]) -> int:
        """The room that loses the least of what pods could use; of equals the smallest."""
        return min(gaps, key=lambda room: (self._usable[room] - self._usable[room - slices], room))


def refused(cluster: Cluster, arriving: Sequence[Job]) -> float:
    """Per cent of the slices asked for, after the warm-up, that found no room."""
    ends: list[tuple[float, int, object]] = []
    asked = lost = 0
    for number, job in enumerate(arriving):
        while ends and ends[0][0] <= job.arrives:
            cluster.give_back(heapq.heappop(ends)[2])
        taken = cluster.take(job)
        if taken is not None:
            heapq.heappush(ends, (job.arrives + job.lasts, number, taken))
        if number >= WARM_UP * len(arriving):
            asked += job.slices
            lost += job.slices if taken is None else 0
    return 100 * lost / asked


def floor(nodes: int, sizes: Mapping[int, int]) -> float:
    """Per cent that is refused where all free slices are one pool."""
    capacity = nodes * GPUS * SLICES
    weighted = sum(size * weight for size, weight in sizes.items())
    offered = {size: LOAD * capacity * weight / weighted for size, weight in sizes.items()}
    states = [1.0]
    for used in range(1, capacity + 1):
        found = sum(size * load * states[used - size] for size, load in offered.items() if size <= used)
        states.append(found / used)
        if states[-1] > 1e200:  # noqa: PLR2004 - far from what a float cannot hold
            states = [state / 1e200 for state in states]
    full = {size: sum(states[capacity - size + 1 :]) / sum(states) for size in sizes}
    return 100 * sum(size * load * full[size] for size, load in offered.items()) / (LOAD * capacity)


def main(
    seeds: Annotated[int, typer.Option(help="Streams of arrivals.")] = 10,
    nodes: Annotated[int, typer.Option(help="Nodes of eight GPUs.")] = NODES,
    turnovers: Annotated[int, typer.Option(help="Mean durations that arrivals last.")] = TURNOVERS,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure what is refused, for each mix of sizes, beside first fit, best fit and FGD."""
    watch = Watch()
    figures: list[Figure] = []
    print(f"refused, % of slices, mean of {seeds} streams; {nodes} nodes, {LOAD:.0%} offered")
    for mix, sizes in MIXES.items():
        found: dict[str, list[float]] = {name: [] for name in (*REFERENCES, "twin", "ours")}
        for seed in range(seeds):
            arriving = jobs(nodes, seed, turnovers, sizes)
            rules = FirstFit(nodes), BestFit(nodes), Fgd(nodes, sizes), TwinOfBestFit(nodes), Ours(nodes)
            for name, cluster in zip(found, rules, strict=True):
                found[name].append(refused(cluster, arriving))
        values = "  ".join(f"{name} {mean(of):.2f}" for name, of in found.items())
        print(f"{mix:20} {values}  floor {floor(nodes, sizes):.2f}")
        figures += _figures(mix, found)
    report("churn", figures, watch, json_file)


def _figures(mix: str, found: dict[str, list[float]]) -> list[Figure]:
    """Ours beside the best reference by its mean, and how far ahead in the mean and in the worst stream."""
    best = min(REFERENCES, key=lambda name: mean(found[name]))
    ahead, chance = _ahead(found[best], found["ours"]), _by_chance(found)
    return [
        Figure(f"{mix}: refused", "% of slices", found["ours"], best, found[best]),
        Figure(f"{mix}: {best} less ours, mean", "points", [mean(ahead)], bar=Bar(">=", 0)),
        Figure(f"{mix}: {best} less ours, worst stream", "points", [min(ahead)], bar=Bar(">=", -chance)),
    ]


def _by_chance(found: dict[str, list[float]]) -> float:
    """Points by which best fit and its twin differ in one stream more than in the mean, at most."""
    differences = _ahead(found["best fit"], found["twin"])
    return max(abs(each - mean(differences)) for each in differences)


def _ahead(theirs: Sequence[float], ours: Sequence[float]) -> list[float]:
    return [their - our for their, our in zip(theirs, ours, strict=True)]


if __name__ == "__main__":
    typer.run(main)
