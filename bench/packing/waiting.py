"""Run with `python -m bench.packing.waiting`: what it costs that a pod's GPU index is fixed at admission.

Pods of an eighth to a whole GPU come and go on nodes of eight GPUs, as much work as 95 % of all slices. With
late binding a pod that finds no room takes the first GPU that gets room for it; with an index fixed at
admission only a GPU of that index will do. Both choose where there is room by the same ledger, and let
waiting pods in by the order of arrival. Compared is the mean wait of all pods on the same arrivals.

A third cluster has a fixed index and `replaceWaiting: {after: 10s}`: pods that wait on it while their share
fits elsewhere are deleted and created again, at the controller's own pace. A pod lasts an hour on average.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from bench.packing.arriving import Job, eighths, empty_ledger, jobs
from controller.replace.pod_replacement import LOOK_SECONDS, MAX_LOOKED_AT
from controller.replace.replacement_pace import ReplacementPlan, WaitingPod
from ledger.ledger import Ledger
from ledger.placement_request import Placement
from modes.facts import PodFact

TURNOVERS, WARM_UP = 40, 10
MAX_WAIT = 1.5
MEAN_SECONDS = 3600.0
"""Of a pod: what the controller's pace is measured against."""
AFTER_SECONDS = 10.0
NAMESPACES = 10
"""That the pods belong to in turn: at most one pod of each is replaced in ten seconds."""


@dataclass(slots=True)
class Cluster:
    """A ledger whose pods start, wait and end."""

    ledger: Ledger
    late: bool
    """Whether a waiting pod may take any index."""
    waiting: list[tuple[Job, int | None]] = field(default_factory=list)
    ends: list[tuple[float, str, str, int]] = field(default_factory=list)
    waits: dict[str, float] = field(default_factory=dict)
    plan: ReplacementPlan | None = None
    """Of the controller, where waiting pods are replaced."""
    replaced: int = 0
    looked: float = 0.0
    """Second in which pods to replace were last looked for."""

    def run(self, arriving: list[Job]) -> float:
        """Mean wait of the jobs after the warm-up, in mean durations."""
        for job in arriving:
            self._end_until(job.arrives)
            self._admit(job)
            self._replace(job.arrives)
        self._end_until(float("inf"))
        settled = arriving[len(arriving) * WARM_UP // TURNOVERS :]
        return mean(self.waits[job.name] for job in settled)

    def _admit(self, job: Job) -> None:
        answer = self.ledger.place(eighths(job.slices, job.name), 0.0)
        assert isinstance(answer, Placement)
        self.ledger.release(job.name)
        (index,) = answer.indices
        if answer.node is not None:
            self._start(job, answer.node, index, job.arrives)
            return
        self.waiting.append((job, None if self.late else index))
        if not self.late:
            values = answer.memory_values or None
            self.ledger.set_pod(_pod(job, None, index, values))

    def _start(self, job: Job, node: str, index: int, now: float) -> None:
        self.ledger.set_pod(_pod(job, node, index))
        self.waits[job.name] = now - job.arrives
        heapq.heappush(self.ends, (now + job.lasts, job.name, node, index))

    def _end_until(self, moment: float) -> None:
        while self.ends and self.ends[0][0] <= moment:
            now, name, node, index = heapq.heappop(self.ends)
            self.ledger.remove_pod(("default", name))
            self._let_in(node, index, now)
            self._replace(now)

    def _let_in(self, node: str, index: int, now: float) -> None:
        view = self.ledger.node(node)
        assert view is not None
        free, still = view.gpus[index].free, []
        for job, wanted in self.waiting:
            if job.slices <= free and wanted in (None, index):
                free -= job.slices
                self._start(job, node, index, now)
            else:
                still.append((job, wanted))
        self.waiting = still

    def _replace(self, now: float) -> None:
        """Replace one pod whose share fits elsewhere, as the controller does in each of its steps."""
        second = now * MEAN_SECONDS
        if self.plan is None or not self.waiting or second - self.looked < LOOK_SECONDS:
            return
        self.looked = second
        waiting = {job.name: job for job, _ in self.waiting}
        full: set[int] = set()
        for pod in self.plan.due([_replaceable(job) for job in waiting.values()], second)[:MAX_LOOKED_AT]:
            self.plan.looked_at(pod, second)
            job = waiting[pod.uid]
            if job.slices in full:
                continue
            answer = self.ledger.place(eighths(job.slices), 0.0)
            assert isinstance(answer, Placement)
            if answer.node is not None:
                self.waiting = [(other, index) for other, index in self.waiting if other is not job]
                self._start(job, answer.node, answer.indices[0], now)
                self.plan.replaced(pod, second)
                self.replaced += 1
                return
            full.add(job.slices)


def _replaceable(job: Job) -> WaitingPod:
    namespace = f"namespace-{int(job.name.removeprefix('p')) % NAMESPACES}"
    return WaitingPod((namespace, job.name), job.name, job.name, AFTER_SECONDS)


def main(
    seeds: Annotated[int, typer.Option(help="Orders of arrival.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure the wait with an index fixed at admission against late binding, on 16 and on 100 nodes."""
    watch = Watch()
    figures = []
    for nodes, bar in ((16, None), (100, Bar("<=", MAX_WAIT))):
        fixed, late, replaced, deleted = [], [], [], []
        for seed in range(seeds):
            arriving = jobs(nodes, seed, TURNOVERS)
            fixed.append(Cluster(empty_ledger(nodes), late=False).run(arriving))
            late.append(Cluster(empty_ledger(nodes), late=True).run(arriving))
            replacing = Cluster(empty_ledger(nodes), late=False, plan=ReplacementPlan())
            replaced.append(replacing.run(arriving))
            deleted.append(100 * replacing.replaced / len(arriving))
        where = f"on {nodes} nodes"
        figures += [
            Figure(f"mean wait {where}", "durations", fixed, "late binding", late, bar),
            Figure(f"mean wait {where}, replaceWaiting", "durations", replaced, "late binding", late),
            Figure(f"pods replaced {where}", "% of pods", deleted),
        ]
    report("waiting", figures, watch, json_file)


def _pod(job: Job, node: str | None, index: int, values: tuple[str, ...] | None = None) -> PodFact:
    return PodFact(
        namespace="default", name=job.name, node=node, takes=((index, job.slices),), memory_values=values
    )


if __name__ == "__main__":
    typer.run(main)
