"""Pods that come and go on nodes of eight GPUs of eight slices, as much work as 95 % of all slices."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from kube.names import GPU_MEMORY_LABEL
from ledger.ledger import Ledger
from ledger.placement_request import Accounting, PlacementRequest, RequestedShare
from modes.facts import NodeFact
from modes.fraction import Fraction

GPUS, SLICES = 8, 8
LOAD = 0.95
USUAL: Mapping[int, int] = {1: 10, 2: 25, 3: 5, 4: 30, 6: 5, 8: 25}
"""Pods by slices, as they come where halves, quarters and whole GPUs are what people ask for."""


@dataclass(frozen=True, slots=True)
class Job:
    """One pod to come."""

    name: str
    arrives: float
    lasts: float
    """In mean durations."""
    slices: int


def jobs(
    nodes: int, seed: int, turnovers: int, sizes: Mapping[int, int] = USUAL, load: float = LOAD
) -> list[Job]:
    """Pods of these sizes, by weight, as they arrive: a Poisson stream of exponential stays."""
    rng = random.Random(seed)  # noqa: S311 - a repeatable experiment, no secret
    average = sum(size * weight for size, weight in sizes.items()) / sum(sizes.values())
    rate = load * nodes * GPUS * SLICES / average
    now, made = 0.0, []
    for number in range(round(rate * turnovers)):
        now += rng.expovariate(rate)
        slices = rng.choices(list(sizes), list(sizes.values()))[0]
        made.append(Job(f"p{number}", now, rng.expovariate(1), slices))
    return made


def empty_ledger(nodes: int) -> Ledger:
    """So many nodes with nothing on them; reservations without limit, as time stands still."""
    gpus = tuple((index, SLICES) for index in range(GPUS))
    ledger = Ledger(most_reservations=10**9)
    facts = [
        NodeFact(
            name=f"n{i:04}",
            labels={GPU_MEMORY_LABEL: "81920"},
            gpus=gpus,
            slices_per_gpu=SLICES,
            gpu_mib=81920,
        )
        for i in range(nodes)
    ]
    ledger.replace(facts, [])
    return ledger


def eighths(slices: int, reservation: str | None = None) -> PlacementRequest:
    """Request some eighths of a GPU, or whole GPUs, and nothing else."""
    share = RequestedShare(Fraction(slices, SLICES))
    return PlacementRequest(share, accounting=Accounting(reservation=reservation))
