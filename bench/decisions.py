"""Run with `python -m bench.decisions`: decisions per second of the ledger and of a plain scan of all nodes.

One decision is a placement with its reservation, while another pod or reservation goes, so that the cluster
stays as full as it is. Both sides do that in the same rounds, on clusters filled by the same bound pods.
"""

from __future__ import annotations

import gc
import random
import resource
import time
from itertools import cycle, islice
from pathlib import Path
from statistics import quantiles
from typing import Annotated

import typer

from bench.full_scan import PlainScan
from bench.harness import Bar, Figure, interleave, report
from bench.machine import Watch
from bench.packing.policies import ask_for, node_fact
from bench.packing.trace import EIGHTH, Trace, load, synthetic
from ledger.ledger import Ledger
from ledger.placement.choice import Choice
from ledger.placement_request import Placement, PlacementRequest
from modes.facts import PodFact

SMALL, LARGE = 1213, 10_000
LOAD = 0.95
FAR_MORE = 10**9
DECISIONS, SCANNED = 2000, 12
STEPS = 200_000
MAX_GROWN = 2.0
_POD = "pod-"
"""Begins the names of bound pods, as no reservation's does."""


class Churn:
    """A cluster about as full as LOAD, whose pods come and go."""

    def __init__(self, ledger: Ledger, trace: Trace, nodes: int) -> None:
        self.ledger = ledger
        self.trace = trace
        shapes = islice(cycle(trace.nodes), nodes)
        ledger.replace([node_fact(order, shape) for order, shape in enumerate(shapes)], [])
        self._rng = random.Random(0)  # noqa: S311 - a repeatable experiment, no secret
        self._pods = [pod for pod in trace.in_eighths().pods if pod.gpus]
        self._held: list[str] = []
        self._names = 0
        gpus = sum(len(node.gpus) for node in ledger.view().nodes)
        self._fill(gpus * 1000 * LOAD)

    def decisions(self, count: int) -> float:
        """Decisions per second of CPU."""
        asks = self.asks(count)
        start = time.process_time()
        for request in asks:
            self.step(request)
        return count / (time.process_time() - start)

    def latencies(self, count: int) -> list[float]:
        """Milliseconds of each single decision."""
        taken = []
        for request in self.asks(count):
            start = time.perf_counter()
            self.step(request)
            taken.append(1000 * (time.perf_counter() - start))
        return taken

    def asks(self, count: int) -> list[PlacementRequest]:
        """Pods to come, each with a reservation of its own."""
        drawn = self._rng.choices(self._pods, k=count)
        self._names += count
        return [ask_for(pod, str(self._names + position)) for position, pod in enumerate(drawn)]

    def step(self, request: PlacementRequest) -> None:
        """Place one pod, then let one go; a pod that finds no room goes at once."""
        name = self._place(request)
        if name is not None:
            position = int(self._rng.random() * len(self._held))
            self._held[position], name = name, self._held[position]
            self._let_go(name)

    def _fill(self, milli: float) -> None:
        while milli > 0:
            (request,) = self.asks(1)
            milli -= request.share.fraction.slices * EIGHTH
            placed = self.ledger.place(request, 0.0)
            self.ledger.release(request.accounting.reservation or "")
            if isinstance(placed, Placement) and placed.node is not None:
                self.ledger.set_pod(_bound(request, placed))
                self._held.append(f"{_POD}{request.accounting.reservation}")

    def _place(self, request: PlacementRequest) -> str | None:
        answer = self.ledger.place(request, 0.0)
        if isinstance(answer, Placement) and answer.node is not None:
            return answer.reservation
        if request.accounting.reservation is not None:
            self.ledger.release(request.accounting.reservation)
        return None

    def _let_go(self, name: str) -> None:
        if name.startswith(_POD):
            self.ledger.remove_pod(("default", name))
        else:
            self.ledger.release(name)


def _bound(request: PlacementRequest, placed: Placement) -> PodFact:
    """The pod of a placement, on its node: reservations alone would end at their cap."""
    return PodFact(
        namespace="default",
        name=f"{_POD}{request.accounting.reservation}",
        node=placed.node,
        takes=tuple((index, request.share.fraction.slices_on_each) for index in placed.indices),
        cpu_milli=request.share.cpu_milli,
        memory_bytes=request.share.memory_bytes,
    )


def main(
    trace: Annotated[
        Path | None, typer.Option(help="Folder with *node_list*.csv and *pod_list*.csv.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure decisions per second at two sizes of cluster, and growth under churn."""
    watch = Watch()
    source = load(trace)[0] if trace is not None else synthetic(nodes=SMALL, pods=8000)
    small, large = Churn(Ledger(FAR_MORE), source, SMALL), Churn(Ledger(FAR_MORE), source, LARGE)
    plain = choosing(PlainScan, source, SMALL)
    assert_same_choices(choosing(Choice, source, SMALL), plain)
    # Else every subject would pay for collecting the garbage of the others' clusters.
    gc.collect()
    gc.freeze()
    measured = interleave(
        {
            "small": lambda: small.decisions(DECISIONS),
            "large": lambda: large.decisions(DECISIONS),
            "plain": lambda: plain.decisions(SCANNED),
        },
        rounds,
    )
    at_small, at_large = measured["small"], measured["large"]
    figures = [
        Figure("decisions at 1,213 nodes", "/s", at_small, "plain scan", measured["plain"], Bar(">=", 100)),
        Figure("at 10,000 nodes", "/s", at_large, "at 1,213", at_small, Bar(">=", 0.5)),
        Figure("p99 of one decision at 1,213 nodes", "ms", [_p99(small)]),
        Figure("p99 of one decision at 10,000 nodes", "ms", [_p99(large)]),
        Figure("memory grown over 200,000 steps", "MB", [_grown(small)], bar=Bar("<=", MAX_GROWN)),
    ]
    report("placement", figures, watch, json_file, trace="openb" if trace is not None else "made up, small")


def choosing(kind: type[Choice], trace: Trace, nodes: int) -> Churn:
    """A cluster that is filled by the fast ledger, as a scan would take minutes for it, then by another."""
    churn = Churn(Ledger(FAR_MORE), trace, nodes)
    churn.ledger._choice.__class__ = kind  # noqa: SLF001 - what is measured
    return churn


def assert_same_choices(*churns: Churn) -> None:
    """Scans and the ledger itself must come to the same score for what they choose."""
    for request in churns[0].asks(SCANNED):
        scores = []
        for churn in churns:
            ledger = churn.ledger
            candidates = ledger._finder.select(request)  # noqa: SLF001 - what is measured
            found = ledger._choice._best(candidates, request)  # noqa: SLF001 - what is measured
            scores.append(found[0] if found is not None else None)
        assert len(set(scores)) == 1, f"scores differ: {scores}"


def _p99(churn: Churn) -> float:
    return quantiles(churn.latencies(DECISIONS), n=100)[98]


def _grown(churn: Churn) -> float:
    """Megabytes that the process grew by, after a quarter of the steps to warm up."""
    for _ in range(STEPS // DECISIONS // 4):
        churn.decisions(DECISIONS)
    before = resident_mb()
    for _ in range(STEPS // DECISIONS):
        churn.decisions(DECISIONS)
    return resident_mb() - before


def resident_mb() -> float:
    """Memory of this process now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    typer.run(main)
