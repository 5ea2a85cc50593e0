"""Run with `python -m bench.packing.degraded`: ten minutes without the controller, beside ten with it.

Pods of an eighth to a whole GPU come on nodes of eight GPUs, 36 in ten minutes on four nodes and as many on
each four more. The controller goes away before the first of them; webhooks place by what it streamed last and
by what they placed themselves since. A pod's index is fixed then; the scheduler takes the preferred node, or
any other on which that index has room, else the pod is pending. Compared is how many are pending in the end,
over all orders of arrival, on the same arrivals. Where pods also end meanwhile, nobody tells the webhooks.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from bench.packing.arriving import eighths
from kube.names import GPU_MEMORY_LABEL
from ledger.ledger import Ledger
from ledger.messages import NodeState
from ledger.placement_request import Placement, PlacementRequest
from modes.facts import NodeFact, PodFact
from webhook.placing.fallback import Fallback

GPUS, SLICES = 8, 8
SIZES, WEIGHTS = (1, 2, 3, 4, 6, 8), (10, 25, 5, 30, 5, 25)
AWAY_S = 600.0
PODS_PER_NODE = 9
MAX_PENDING = 1.05
USED = (0.3, 0.5, 0.6)
"""Of all slices when the controller goes away: the pods to come ask for 60 % more."""
ENDING_S = 1200.0
"""How long pods last on average where they end."""


class Cluster:
    """Nodes, the pods on them, and those that are pending."""

    def __init__(self, nodes: int) -> None:
        self.facts = {f"n{i:03}": _node(f"n{i:03}") for i in range(nodes)}
        self.ledger = Ledger()
        """What the controller knows; the truth."""
        self.ledger.replace(self.facts.values(), [])
        self.now = 0.0
        self._ends: list[tuple[float, PodFact]] = []
        self._pending: list[tuple[PodFact, float]] = []

    @property
    def pending(self) -> int:
        """Pods without a node."""
        return len(self._pending)

    def run(self, used: float, seed: int, *, lasts: float, webhooks: int) -> int:
        """Pods that are pending in the end; with no webhook placing by itself, the controller does."""
        rng = random.Random(seed)  # noqa: S311 - a repeatable experiment, no secret
        number = 0
        while self.ledger.totals().used < used * len(self.facts) * GPUS * SLICES:
            number += 1
            self._arrive(number, rng, lasts, self._ask_controller)
        places = [self._fallback().place for _ in range(webhooks)] or [self._ask_controller]
        rate = PODS_PER_NODE * len(self.facts) / AWAY_S
        for _ in range(PODS_PER_NODE * len(self.facts)):
            self._pass(self.now + rng.expovariate(rate))
            number += 1
            self._arrive(number, rng, lasts, places[number % len(places)])
        return self.pending

    def _arrive(
        self, number: int, rng: random.Random, lasts: float, place: Callable[[PlacementRequest], object]
    ) -> None:
        size, ends = rng.choices(SIZES, WEIGHTS)[0], rng.expovariate(1 / lasts)
        placement = place(eighths(size, f"r{number}"))
        assert isinstance(placement, Placement)
        self._admit(f"p{number}", size, ends, placement)

    def _ask_controller(self, ask: PlacementRequest) -> object:
        return self.ledger.place(ask, self.now)

    def _fallback(self) -> Fallback:
        """A webhook that followed the stream until now."""
        fallback = Fallback(lambda: self.now)
        states = {}
        for name, fact in self.facts.items():
            view, room = self.ledger.node(name), self.ledger.room(name)
            assert view is not None
            assert room is not None
            states[name] = NodeState(fact, view, *room)
        asyncio.run(fallback.replace(states, self.ledger.pending()))
        return fallback

    def _pass(self, until: float) -> None:
        while self._ends and self._ends[0][0] <= until:
            self.now, pod = heapq.heappop(self._ends)
            self.ledger.remove_pod(pod.key)
            self._let_in()
        self.now = until
        self.ledger.expire(self.now)

    def _admit(self, name: str, size: int, lasts: float, placement: Placement) -> None:
        pod = PodFact(
            namespace="default",
            name=name,
            takes=tuple((index, size) for index in placement.indices),
            reservation=placement.reservation,
            memory_values=placement.memory_values or None,
        )
        node = self._node_with_room(pod, placement.node)
        if node is None:
            self._pending.append((pod, lasts))
            self.ledger.set_pod(pod)
        else:
            self._bind(pod, node, lasts)

    def _node_with_room(self, pod: PodFact, preferred: str | None) -> str | None:
        # Reservations of others hold nothing for the scheduler, but none lives long enough here to matter.
        (index, size) = pod.gpus[0]
        for name in [preferred, *self.facts] if preferred is not None else self.facts:
            view = self.ledger.node(name)
            held = (
                sum(share.slices for share in view.gpus[index].shares if share.kind == "holder")
                if view
                else 0
            )
            if SLICES - held >= size:
                return name
        return None

    def _bind(self, pod: PodFact, node: str, lasts: float) -> None:
        fields = {field: getattr(pod, field) for field in ("namespace", "name", "takes", "reservation")}
        bound = PodFact(**fields, node=node)
        self.ledger.set_pod(bound)
        heapq.heappush(self._ends, (self.now + lasts, bound))

    def _let_in(self) -> None:
        pending, self._pending = self._pending, []
        for pod, lasts in pending:
            node = self._node_with_room(pod, None)
            if node is None:
                self._pending.append((pod, lasts))
            else:
                self._bind(pod, node, lasts)


def main(
    seeds: Annotated[int, typer.Option(help="Orders of arrival.")] = 10,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Count pending pods after ten minutes without the controller, against the controller alive."""
    watch = Watch()
    figures = []
    for (lasts, ending), nodes, used in product(((1e9, ""), (ENDING_S, ", pods end")), (4, 16), USED):
        alive = _pending(nodes, used, lasts, seeds, webhooks=0)
        for webhooks in (1, 2):
            pending = _pending(nodes, used, lasts, seeds, webhooks=webhooks)
            name = f"{nodes} nodes, {used:.0%} used before, webhooks: {webhooks}{ending}"
            bar = Bar("<=", MAX_PENDING) if webhooks == 1 and not ending else None
            figures.append(
                Figure(
                    name, "pods pending", [pending], "with the controller (at least 1)", [max(1, alive)], bar
                )
            )
    report("degraded", figures, watch, json_file)


def _pending(nodes: int, used: float, lasts: float, seeds: int, *, webhooks: int) -> int:
    return sum(Cluster(nodes).run(used, seed, lasts=lasts, webhooks=webhooks) for seed in range(seeds))


def _node(name: str) -> NodeFact:
    gpus = tuple((index, SLICES) for index in range(GPUS))
    return NodeFact(
        name=name, labels={GPU_MEMORY_LABEL: "81920"}, gpus=gpus, slices_per_gpu=SLICES, gpu_mib=81920
    )


if __name__ == "__main__":
    typer.run(main)
