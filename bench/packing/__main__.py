"""Run with `python -m bench.packing --trace DIR`: how full the ledger gets openb's cluster.

Pods arrive one after the other until 130 % of the GPUs are requested; nothing leaves, and a pod that finds no
room is not tried again. The figure is what is allocated when the arrived load is 100 %. It is compared with
what the rules of commit ebcb222d allocated for the same orders of arrival, which placed the same pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from bench.packing.mixes import mixes
from bench.packing.policies import Ours
from bench.packing.trace import Trace, load

MAX_LOAD = 1.3
SEEDS = range(3)
EARLIER: Mapping[str, tuple[float, float, float]] = {
    "default": (97.358, 97.416, 97.410),
    "gpuspec33": (96.082, 96.124, 96.289),
    "cpu250": (96.877, 96.682, 96.398),
    "cpu300": (88.043, 88.770, 88.069),
}
"""Per cent allocated at ebcb222d, by SEEDS."""
BEHIND = {"default": 0.3, "gpuspec33": 0.3, "cpu250": 1.0, "cpu300": 1.0}
"""Points that the mean may be behind those."""


def main(
    trace: Annotated[Path, typer.Option(help="Folder with openb's CSV files.")],
    seeds: Annotated[int, typer.Option(help="Orders of arrival, at most 3.")] = len(SEEDS),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure how full the ledger gets openb's nodes, with its default pods and mixes of them."""
    watch, figures = Watch(), list[Figure]()
    default = load(trace)
    for one in (default, *mixes(default)):
        found = [allocated(one.in_eighths(), seed) for seed in SEEDS[:seeds]]
        before = EARLIER[one.name][:seeds]
        behind = mean(before) - mean(found)
        figures += [
            Figure(f"{one.name}: allocated", "% of GPUs", found, "at ebcb222d", before),
            Figure(f"{one.name}: behind ebcb222d, mean", "points", [behind], bar=Bar("<=", BEHIND[one.name])),
        ]
    report("packing", figures, watch, json_file)


def allocated(trace: Trace, seed: int) -> float:
    """Per cent of the GPUs that the ledger has allocated when the arrived load is 100 %."""
    policy, arrived, taken = Ours(trace.node_order(seed)), 0, 0
    for pod in trace.arrivals(seed, MAX_LOAD):
        arrived += pod.total
        if arrived > trace.capacity:
            break
        if policy.place(pod):
            taken += pod.total
    return 100 * taken / trace.capacity


if __name__ == "__main__":
    typer.run(main)
