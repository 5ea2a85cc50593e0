"""Run with `python -m bench.decisions`: decisions per second of the ledger at two sizes of cluster.

One decision is a placement with its reservation, while another pod or reservation goes, so that the cluster
stays as full as it is. Then the dearest demands that a pod may make are placed on the large cluster.
"""

from __future__ import annotations

import gc
import random
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated

import typer

from bench.harness import Bar, Figure, interleave, report
from bench.machine import Watch
from bench.packing.policies import HOST_LABEL, ask_for, node_fact
from bench.packing.trace import EIGHTH, Trace, synthetic
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.ledger import Ledger
from ledger.placement_request import Demands, Placement, PlacementRequest

SMALL, LARGE = 1213, 10_000
LOAD = 0.95
FAR_MORE = 10**9
DECISIONS = 2000
DEAREST = Bar("<=", 25)
"""Milliseconds of CPU."""
TERMS = 100
"""Terms that the webhook lets pass."""
OPERATORS = "Gt", "Lt", "NotIn"


class Churn:
    """A cluster about as full as LOAD, whose pods come and go."""

    def __init__(self, trace: Trace, nodes: int) -> None:
        self.ledger = ledger = Ledger(FAR_MORE)
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

    def dearest(self) -> float:
        """Milliseconds of CPU of the longest of some decisions on as many terms as a pod may have."""
        return max(map(self._dear, range(4 * len(OPERATORS))))

    def _dear(self, number: int) -> float:
        operator = OPERATORS[number % len(OPERATORS)]
        terms = [
            NodeSelectorTerm((Requirement(HOST_LABEL, operator, (f"{number * TERMS + each}",)),))
            for each in range(TERMS)
        ]
        (request,) = self.asks(1)
        demands = Demands(Constraints(required_terms=tuple(terms)))
        request = PlacementRequest(request.share, demands, request.accounting)
        start = time.thread_time()
        self.step(request)
        return 1000 * (time.thread_time() - start)

    def asks(self, count: int) -> list[PlacementRequest]:
        """Pods to come, each with a reservation of its own."""
        drawn = self._rng.choices(self._pods, k=count)
        self._names += count
        return [ask_for(pod, str(self._names + position)) for position, pod in enumerate(drawn)]

    def step(self, request: PlacementRequest) -> None:
        """Place one pod, then let one go; a pod that finds no room goes at once."""
        if (name := self._place(request)) is not None:
            position = int(self._rng.random() * len(self._held))
            self._held[position], name = name, self._held[position]
            self.ledger.release(name)

    def _fill(self, milli: float) -> None:
        while milli > 0:
            (request,) = self.asks(1)
            milli -= request.share.fraction.slices * EIGHTH
            if (name := self._place(request)) is not None:
                self._held.append(name)

    def _place(self, request: PlacementRequest) -> str | None:
        answer = self.ledger.place(request, 0.0)
        if isinstance(answer, Placement) and answer.node is not None:
            return answer.reservation
        self.ledger.release(request.accounting.reservation or "")
        return None


def main(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure decisions per second at two sizes of cluster, and the longest step."""
    watch = Watch()
    source = synthetic(nodes=SMALL, pods=8000)
    small, large = Churn(source, SMALL), Churn(source, LARGE)
    # Else one size would pay for collecting the garbage of the other's cluster.
    gc.collect()
    gc.freeze()
    sizes = {"small": lambda: small.decisions(DECISIONS), "large": lambda: large.decisions(DECISIONS)}
    measured = interleave(sizes, rounds)
    figures = [
        Figure("at 10,000 nodes", "/s", measured["large"], "at 1,213", measured["small"], Bar(">=", 0.5)),
        Figure(
            f"longest step at 10,000 nodes, {TERMS} terms",
            "ms CPU",
            [large.dearest() for _ in range(rounds)],
            bar=DEAREST,
        ),
    ]
    report("placement", figures, watch, json_file)


if __name__ == "__main__":
    typer.run(main)
