"""Run with `python -m bench.packing --trace DIR`: how full the ledger gets openb's cluster.

Pods arrive one after the other until 130 % of the GPUs are requested; nothing leaves, and a pod that finds no
room is not tried again. The figure is what is allocated when the arrived load is 100 %. It is compared with
what the rules of commit ebcb222d allocated for the same orders of arrival, which placed the same pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from bench.packing.policies import Ours
from bench.packing.trace import TracePod, load

MAX_LOAD = 1.3
SEEDS = range(3)
EARLIER = (97.358, 97.416, 97.410)
"""Per cent allocated at ebcb222d, by SEEDS."""
BEHIND = Bar("<=", 0.3)
"""Points that the mean may be behind those."""


def main(
    trace: Annotated[Path, typer.Option(help="Folder with openb's CSV files.")],
    seeds: Annotated[int, typer.Option(help="Orders of arrival, at most 3.")] = len(SEEDS),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure how full the ledger gets openb's nodes with its default pods."""
    watch, pods, before = Watch(), load(trace).in_eighths(), EARLIER[:seeds]
    found = [
        allocated(Ours(pods.node_order(seed)), pods.arrivals(seed, MAX_LOAD), pods.capacity)
        for seed in SEEDS[:seeds]
    ]
    figures = [
        Figure("allocated", "% of GPUs", found, "at ebcb222d", before),
        Figure("behind ebcb222d, mean", "points", [mean(before) - mean(found)], bar=BEHIND),
    ]
    report("packing", figures, watch, json_file)


def allocated(policy: Ours, arrivals: Iterable[TracePod], capacity: int) -> float:
    """Per cent of the GPU capacity that is allocated when the arrived load is 100 %.

    Raises:
        ValueError: the arrivals request less than that.
    """
    arrived = taken = 0
    for pod in arrivals:
        arrived += pod.total
        if arrived > capacity:
            return 100 * taken / capacity
        if policy.place(pod):
            taken += pod.total
    raise ValueError("the pods request less than all GPUs")


if __name__ == "__main__":
    typer.run(main)
