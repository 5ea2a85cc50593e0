"""Run with `python -m bench.packing.gated`: what it costs that a gated pod has its GPU index from admission.

Half of the pods of bench.packing.waiting are of a team with a quota of half of all slices, and wait at it. A
pod that waits has the index with the shortest queue when it was admitted. When it goes, the ledger is asked
which GPU it would get now. In a second cluster, on the same arrivals, the pod gets that one. Its wait counts
from when it goes.

A pod that goes with its old index takes the node with the most free slices among those that have room there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer

from bench.harness import Figure, report
from bench.machine import Watch
from bench.packing.arriving import GPUS, SLICES, Job, empty_ledger, jobs
from ledger.ledger import Ledger
from ledger.placement_request import (
    Accounting,
    Demands,
    Placement,
    PlacementRequest,
    Quota,
    RequestedShare,
)
from modes.facts import PodFact, QuotaWait
from modes.fraction import Fraction
from modes.units import Gpu

TURNOVERS, WARM_UP = 40, 10
PART = 0.5
"""Of all slices, the team's quota; and of all pods, the team's."""


@dataclass(slots=True)
class Lifted:
    """What was seen of pods that waited for the quota."""

    pods: int = 0
    blocked: int = 0
    """No GPU of the index from admission had room, but the index chosen now had."""
    fuller: int = 0
    """Fewer slices are free at the index from admission than at the one chosen now."""
    waits: list[float] = field(default_factory=list)
    """Of each from its going to its start, in mean durations."""


class Cluster:
    """A ledger whose pods wait for a quota, start and end.

    Args:
        ledger: with the nodes, and no pods.
        late: whether a pod that goes gets the index that the ledger chooses now.
    """

    def __init__(self, ledger: Ledger, *, late: bool) -> None:
        self.lifted = Lifted()
        self._ledger, self._late = ledger, late
        self._ledger.line.state = "open"
        names = [node.name for node in ledger.view().nodes]
        self._free = {(node, index): SLICES for node in names for index in range(GPUS)}
        self._quota = Quota("namespace", "team", slices=int(PART * len(self._free) * SLICES))
        self._gated: dict[str, tuple[Job, int]] = {}
        self._gone: dict[str, float] = {}
        self._waiting: list[tuple[Job, int]] = []
        self._ends: list[tuple[float, str, Job, str, int]] = []

    def run(self, arriving: Iterable[Job]) -> Lifted:
        """Let pods arrive, and end all."""
        for job in arriving:
            self._end_until(job.arrives)
            self._admit(job)
        self._end_until(float("inf"))
        return self.lifted

    def _admit(self, job: Job) -> None:
        answer = self._choice(job, reservation=job.name)
        self._ledger.release(job.name)
        if answer.waits_for_quota:
            self._gated[job.name] = job, answer.indices[0]
            wait = QuotaWait(job.name, since=f"{job.arrives:015.9f}")
            self._ledger.set_pod(_pod(job, None, answer.indices[0], wait))
        else:
            self._start_or_wait(job, answer, job.arrives)

    def _choice(self, job: Job, reservation: str | None = None, *, goes: bool = False) -> Placement:
        quotas = (self._quota,) if _of_team(job) and not goes else ()
        answer = self._ledger.place(
            PlacementRequest(
                RequestedShare(Fraction(job.slices, SLICES)),
                Demands(when_over_quota="wait"),
                Accounting(reservation=reservation, namespace=_namespace(job), quotas=quotas),
            ),
            0.0,
        )
        assert isinstance(answer, Placement)
        return answer

    def _end_until(self, moment: float) -> None:
        while self._ends and self._ends[0][0] <= moment:
            now, _, job, node, index = heapq.heappop(self._ends)
            self._ledger.remove_pod((_namespace(job), job.name))
            self._free[node, index] += job.slices
            self._let_in(node, index, now)
            self._let_go(now)

    def _let_in(self, node: str, index: int, now: float) -> None:
        for job, wanted in list(self._waiting):
            if wanted == index and job.slices <= self._free[node, index]:
                self._waiting.remove((job, wanted))
                self._start(job, node, index, now)

    def _let_go(self, now: float) -> None:
        quotas = {"team": (self._quota,)}
        for pod in self._ledger.line.due(lambda namespace, _queues: quotas.get(namespace, ()), "policies"):
            if pod is not None:
                self._lift(*self._gated.pop(pod.name), now)

    def _lift(self, job: Job, index: int, now: float) -> None:
        self._ledger.remove_pod((_namespace(job), job.name))
        choice, node = self._choice(job, goes=True), self._node_with_room(job, index)
        if job.arrives >= WARM_UP:
            free = self._free_by_index()
            self._gone[job.name] = now
            self.lifted.pods += 1
            self.lifted.blocked += node is None and choice.node is not None
            self.lifted.fuller += free[index] < free[choice.indices[0]]
        self._start_or_wait(job, choice if self._late else Placement((index,), 0, (), node=node), now)

    def _start_or_wait(self, job: Job, placement: Placement, now: float) -> None:
        (index,) = placement.indices
        if placement.node is not None:
            self._start(job, placement.node, index, now)
        else:
            self._waiting.append((job, index))
            self._ledger.set_pod(_pod(job, None, index))

    def _start(self, job: Job, node: str, index: int, now: float) -> None:
        self._ledger.set_pod(_pod(job, node, index))
        self._free[node, index] -= job.slices
        if job.name in self._gone:
            self.lifted.waits.append(now - self._gone.pop(job.name))
        heapq.heappush(self._ends, (now + job.lasts, job.name, job, node, index))

    def _node_with_room(self, job: Job, index: int) -> str | None:
        """The node with the most free slices among those with room at an index."""
        on_node: Counter[str] = Counter()
        for (node, _), free in self._free.items():
            on_node[node] += free
        fits = [node for node in on_node if self._free[node, index] >= job.slices]
        return max(fits, key=lambda node: on_node[node], default=None)

    def _free_by_index(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for (_, index), free in self._free.items():
            found[index] += free
        return found


def main(
    seeds: Annotated[int, typer.Option(help="Orders of arrival.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Compare the index from admission with the one chosen when a pod goes."""
    watch, figures = Watch(), []
    for nodes in (4, 16):
        early, late = [], []
        for seed in range(seeds):
            arriving = jobs(nodes, seed, TURNOVERS)
            early.append(Cluster(empty_ledger(nodes), late=False).run(arriving))
            late.append(Cluster(empty_ledger(nodes), late=True).run(arriving))
        figures += _figures(f"on {nodes} nodes", arriving, early, late)
    report("gated", figures, watch, json_file)


def _figures(where: str, arriving: list[Job], early: list[Lifted], late: list[Lifted]) -> list[Figure]:
    unit = "% of pods that waited"
    return [
        Figure(
            f"pods that wait for the quota {where}", "% of pods", [_of(each.pods, arriving) for each in early]
        ),
        Figure(
            f"index without room, another one has some, {where}",
            unit,
            [100 * each.blocked / each.pods for each in early],
        ),
        Figure(
            f"index with fewer free slices than another choice {where}",
            unit,
            [100 * each.fuller / each.pods for each in early],
        ),
        Figure(
            f"mean wait for the index {where}",
            "durations",
            [mean(each.waits) for each in early],
            "index chosen when it goes",
            [mean(each.waits) for each in late],
        ),
    ]


def _of(pods: int, arriving: list[Job]) -> float:
    return 100 * pods / sum(job.arrives >= WARM_UP for job in arriving)


def _of_team(job: Job) -> bool:
    return int(job.name.removeprefix("p")) % 2 == 0


def _namespace(job: Job) -> str:
    return "team" if _of_team(job) else "others"


def _pod(job: Job, node: str | None, index: int, wait: QuotaWait | None = None) -> PodFact:
    return PodFact(
        namespace=_namespace(job),
        name=job.name,
        node=node,
        takes=((Gpu(index), job.slices),),
        quota_wait=wait,
    )


if __name__ == "__main__":
    typer.run(main)
