"""Run with `python -m bench.packing.waiting`: what binding a share to a GPU at admission, or later, costs.

Pods of an eighth to a whole GPU come and go on nodes of eight GPUs, as much work as 80 or 95 % of all slices.
Compared is the wait of all pods on the same arrivals, from arrival to start:

- late binding, the reference: the ledger chooses where there is room, and a pod that finds none takes the
  first GPU that gets room for it. What can fit does, in the order of arrival.
- mode `per-gpu`: the index is fixed at admission, and only a GPU of that index will do.
- mode `dra`: the scheduler binds late, and takes the first card with room of the node that it scores best: by
  default the one whose pods request least (each requests CPU by its slices); or the fullest one (strategy
  MostAllocated); or one that the webhook would prefer at admission: the node of the card with the least room
  that is enough, or the node that the ledger chose. Naming the card, too, would be late binding.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import mean, quantiles
from typing import Annotated

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from bench.packing.arriving import GPUS, LOAD, SLICES, USUAL, Job, eighths, empty_ledger, jobs
from ledger.ledger import Ledger
from ledger.placement_request import Placement
from modes.facts import PodFact

TURNOVERS, WARM_UP = 40, 10
MAX_WAIT = 1.5
_OPENB = {1: 31, 2: 274, 3: 392, 4: 897, 5: 147, 6: 250, 7: 1069, 8: 3888}
"""Pods of the trace by their eighths."""
SHAPES = (
    ("", USUAL, 4, 0.8),
    ("", USUAL, 16, 0.8),
    ("", USUAL, 16, LOAD),
    ("", USUAL, 100, LOAD),
    (", sizes of openb", _OPENB, 16, 0.8),
    (", sizes of openb", _OPENB, 16, LOAD),
)
"""Mix of sizes, nodes, load."""


class Binding(StrEnum):
    """Who chooses a pod's GPU, and when."""

    LATE = "late binding"
    INDEX = "per-gpu"
    FIRST_FIT = "dra"
    FULLEST = "dra, MostAllocated"
    TIGHTEST = "dra, tightest card's node preferred"
    STEERED = "dra, ledger's node preferred"


BARRED = (Binding.INDEX, "mean", "on 100 nodes at 95 %")
BY_SCHEDULER = (Binding.FIRST_FIT, Binding.FULLEST, Binding.TIGHTEST)


@dataclass(frozen=True, slots=True)
class Waits:
    """Of the pods after the warm-up, in mean durations."""

    mean: float
    p99: float


class Cluster:
    """GPUs whose pods start, wait and end; the ledger knows them where it chooses."""

    def __init__(self, nodes: int, binding: Binding) -> None:
        self.binding = binding
        self.ledger: Ledger = empty_ledger(nodes)
        self.waits: dict[str, float] = {}
        names = [node.name for node in self.ledger.view().nodes]
        self._free = {name: [SLICES] * GPUS for name in names}
        self._rng = random.Random(nodes)  # noqa: S311 - the scheduler's choice among equals, no secret
        self._waiting: list[tuple[Job, int | None]] = []
        self._ends: list[tuple[float, str, Job, str, int]] = []

    def run(self, arriving: list[Job]) -> Waits:
        """Let pods arrive, and end all."""
        for job in arriving:
            self._end_until(job.arrives)
            self._admit(job)
        self._end_until(float("inf"))
        settled = [self.waits[job.name] for job in arriving[len(arriving) * WARM_UP // TURNOVERS :]]
        return Waits(mean(settled), quantiles(settled, n=100)[98])

    def _admit(self, job: Job) -> None:
        if self.binding in BY_SCHEDULER:
            node = self._scored_best(job.slices)
            self._start_or_wait(job, node, None)
            return
        answer = self.ledger.place(eighths(job.slices, job.name), 0.0)
        assert isinstance(answer, Placement)
        self.ledger.release(job.name)
        (index,) = answer.indices
        self._start_or_wait(job, answer.node, None if self.binding is Binding.STEERED else index)
        if answer.node is None and self.binding is Binding.INDEX:
            values = answer.memory_values or None
            self.ledger.set_pod(_pod(job, None, index, values))

    def _start_or_wait(self, job: Job, node: str | None, index: int | None) -> None:
        if node is None:
            self._waiting.append((job, index if self.binding is Binding.INDEX else None))
            return
        first = next(at for at, free in enumerate(self._free[node]) if free >= job.slices)
        self._start(job, node, first if index is None else index, job.arrives)

    def _scored_best(self, slices: int) -> str | None:
        """Return the scheduler's node; None if no card has room."""
        fitting = [(node, free) for node, free in self._free.items() if max(free) >= slices]
        scores = [(self._cost(free, slices), self._rng.random(), node) for node, free in fitting]
        return min(scores)[2] if scores else None

    def _cost(self, free: list[int], slices: int) -> int:
        """Return what the scheduler likes least of a node."""
        if self.binding is Binding.TIGHTEST:
            return min(each for each in free if each >= slices)
        return sum(free) if self.binding is Binding.FULLEST else -sum(free)

    def _start(self, job: Job, node: str, index: int, now: float) -> None:
        self._free[node][index] -= job.slices
        if self.binding not in BY_SCHEDULER:
            self.ledger.set_pod(_pod(job, node, index))
        self.waits[job.name] = now - job.arrives
        heapq.heappush(self._ends, (now + job.lasts, job.name, job, node, index))

    def _end_until(self, moment: float) -> None:
        while self._ends and self._ends[0][0] <= moment:
            now, name, job, node, index = heapq.heappop(self._ends)
            self._free[node][index] += job.slices
            if self.binding not in BY_SCHEDULER:
                self.ledger.remove_pod(("default", name))
            self._let_in(node, index, now)

    def _let_in(self, node: str, index: int, now: float) -> None:
        still = []
        for job, wanted in self._waiting:
            if job.slices <= self._free[node][index] and wanted in (None, index):
                self._start(job, node, index, now)
            else:
                still.append((job, wanted))
        self._waiting = still


def main(
    seeds: Annotated[int, typer.Option(help="Orders of arrival.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure waits by binding, on 4 to 100 nodes, at 80 and 95 % load, with two mixes of sizes."""
    watch = Watch()
    figures: list[Figure] = []
    for name, sizes, nodes, load in SHAPES:
        arrivals = [jobs(nodes, seed, TURNOVERS, sizes, load) for seed in range(seeds)]
        figures += _figures(f"on {nodes} nodes at {100 * load:.0f} %{name}", nodes, arrivals)
    report("waiting", figures, watch, json_file)


def _figures(where: str, nodes: int, arrivals: list[list[Job]]) -> list[Figure]:
    measured: dict[Binding, list[Waits]] = {}
    figures = []
    for binding in Binding:
        clusters = [Cluster(nodes, binding) for _ in arrivals]
        measured[binding] = [each.run(jobs) for each, jobs in zip(clusters, arrivals, strict=True)]
        for kind in ("mean", "p99"):
            values, late = ([getattr(each, kind) for each in measured[of]] for of in (binding, Binding.LATE))
            if binding is not Binding.LATE:
                bar = Bar("<=", MAX_WAIT) if (binding, kind, where) == BARRED else None
                name = f"{kind} wait {where}, {binding}"
                # Where nobody waits there is nothing to divide by.
                reference, late = (Binding.LATE, late) if all(late) else ("", [])
                figures.append(Figure(name, "durations", values, reference, late, bar))
    return figures


def _pod(job: Job, node: str | None, index: int, values: tuple[str, ...] | None = None) -> PodFact:
    return PodFact(
        namespace="default", name=job.name, node=node, takes=((index, job.slices),), memory_values=values
    )


if __name__ == "__main__":
    typer.run(main)
