"""Run with `python -m bench.mig [--trace DIR]`: MIG cards divided on demand against the best fixed division.

Pods ask for the smallest profile of an A100 80GB that holds their share of a GPU, as openb's default trace
has them (or, without a trace, as a made-up list does), come in a Poisson stream and stay an hour on average.
The fixed division is the one with the shortest wait, in hindsight, of six that are chosen knowing the load:
cards one after the other get the full geometry that serves most of what the cards before leave unserved, of
the load with more or less to spare. On demand, every card begins undivided, the product's planner decides,
and a division takes three minutes in which the node takes no pod; the pause after it is the product's.
Pods are bound in the order of arrival.
"""

from __future__ import annotations

import csv
import heapq
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from controller.geometry.model import MigNode, MigRequest
from controller.geometry.pauses import PAUSE_SECONDS
from controller.geometry.planner import plan
from modes.fraction import Fraction
from modes.mig_choice import fit_of_fraction
from modes.mig_geometry import Geometry, full_geometries
from modes.mig_profiles import A100_80GB as CARD

DIVISION_SECONDS, MEAN_SECONDS = 180.0, 3600.0
SPARE = (1.0, 1.1, 1.2, 1.3, 1.4, 1.6)
"""Times the load that a fixed division is made for."""
EIGHTHS: Mapping[int, int] = {1: 10, 2: 25, 3: 5, 4: 30, 6: 5, 8: 25}
"""Pods by eighths of a GPU where no trace is given."""


@dataclass(slots=True)
class Cluster:
    """Nodes whose pods start, wait and end."""

    nodes: dict[str, MigNode]
    on_demand: bool
    pause: float = 0.0
    """Seconds after a division for which a node is not divided again."""
    waiting: list[tuple[float, str, float]] = field(default_factory=list)
    """Arrival, profile and duration, in order of arrival."""
    events: list[tuple[float, int, str, str | None]] = field(default_factory=list)
    """Time, number, node and the profile that is given back; None where a division ends, or its pause."""
    waits: list[float] = field(default_factory=list)
    divisions: int = 0
    number: int = 0

    def until(self, now: float) -> None:
        """Let everything happen that happens before."""
        while self.events and self.events[0][0] <= now:
            at, _, name, profile = heapq.heappop(self.events)
            node = self.nodes[name]
            if profile is None:
                self._end(node, at)
            else:
                self.nodes[name] = replace(node, held=Counter(node.held) - Counter([profile]))
            self.serve(at)

    def _end(self, node: MigNode, now: float) -> None:
        """End a node's division, or its pause."""
        paused_until = now + self.pause if node.is_changing and self.pause else None
        self.nodes[node.name] = replace(node, is_changing=False, paused_until=paused_until)
        if paused_until is not None:
            self._later(paused_until, node.name, None)

    def serve(self, now: float) -> None:
        """Bind what fits, and divide for what does not."""
        left, full = [], set[str]()
        for pod in self.waiting:
            if pod[1] in full or not self._bind(now, *pod):
                full.add(pod[1])
                left.append(pod)
        self.waiting = left
        if self.on_demand and left:
            self._divide(now)

    def _bind(self, now: float, arrived: float, profile: str, lasts: float) -> bool:
        for name, node in self.nodes.items():
            if not node.is_changing and node.total[profile] > node.held.get(profile, 0):
                self.nodes[name] = replace(node, held=Counter(node.held) + Counter([profile]))
                self._later(now + lasts, name, profile)
                self.waits.append(now - arrived)
                return True
        return False

    def _divide(self, now: float) -> None:
        requests = [
            MigRequest(("", str(i)), ((profile, 1),), f"{at:020.6f}")
            for i, (at, profile, _) in enumerate(self.waiting)
        ]
        for change in plan(self.nodes.values(), requests).changes:
            node = self.nodes[change.node]
            self.nodes[change.node] = replace(node, geometries=(change.geometry,), is_changing=True)
            self._later(now + DIVISION_SECONDS, change.node, None)
            self.divisions += 1

    def _later(self, at: float, name: str, profile: str | None) -> None:
        self.number += 1
        heapq.heappush(self.events, (at, self.number, name, profile))


def fixed(cards: int, load: Mapping[str, float]) -> list[Geometry]:
    """Return a geometry for each card, the best for a load of so many instances of each profile."""
    unserved = dict(load)
    chosen = []
    memory = {profile.name: profile.memory for profile in CARD.profiles}

    def served(geometry: Geometry) -> float:
        return sum(
            memory[name] * min(count, unserved.get(name, 0.0)) for name, count in Counter(geometry).items()
        )

    for _ in range(cards):
        best = max(full_geometries(CARD), key=served)
        chosen.append(best)
        for name, count in Counter(best).items():
            unserved[name] = max(0.0, unserved.get(name, 0.0) - count)
    return chosen


def eighths_of(folder: Path) -> Counter[int]:
    """Return how many pods of openb's default trace ask for so many eighths of one GPU, rounded up."""
    with (folder / "openb_pod_list_default.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["num_gpu"] == "1"]
    return Counter(-(-int(row["gpu_milli"]) * 8 // 1000) for row in rows)


def profiles_of(eighths: Mapping[int, int]) -> dict[str, int]:
    """Return the profiles that hold these shares, by weight."""
    found = Counter[str]()
    for share, weight in eighths.items():
        fit = fit_of_fraction(CARD, CARD.profiles, Fraction(share, 8))
        if fit is not None:
            found[fit.profile.name] += weight
    return dict(found)


def compare(  # noqa: PLR0913 - each is an option of the command
    weights: Mapping[str, int], seed: int, *, nodes: int, pods: int, load: float, pause: float
) -> tuple[Cluster, Cluster]:
    """Run the same pods on demand and on the best fixed division."""
    rng = random.Random(seed)  # noqa: S311 - a repeatable experiment, no secret
    memory = {profile.name: profile.memory for profile in CARD.profiles}
    average = sum(memory[name] * weight for name, weight in weights.items()) / sum(weights.values())
    at_once = load * nodes * CARD.memory / average
    offered = {name: at_once * weight / sum(weights.values()) for name, weight in weights.items()}
    arriving, now = [], 0.0
    for _ in range(pods):
        now += rng.expovariate(at_once / MEAN_SECONDS)
        profile = rng.choices(list(weights), list(weights.values()))[0]
        arriving.append((now, profile, rng.expovariate(1 / MEAN_SECONDS)))
    empty: list[Geometry] = [()] * nodes
    divisions = [fixed(nodes, {name: spare * each for name, each in offered.items()}) for spare in SPARE]
    still = [run(each, arriving, on_demand=False) for each in divisions]
    return run(empty, arriving, on_demand=True, pause=pause), min(
        still, key=lambda cluster: mean(cluster.waits)
    )


def run(
    divided: list[Geometry],
    arriving: list[tuple[float, str, float]],
    *,
    on_demand: bool,
    pause: float = 0.0,
) -> Cluster:
    """Run pods on nodes of one card, divided so; pods that never start wait until the last arrival."""
    nodes = {f"n{i}": MigNode(f"n{i}", CARD, (each,)) for i, each in enumerate(divided)}
    cluster = Cluster(nodes, on_demand, pause)
    for pod in arriving:
        cluster.until(pod[0])
        cluster.waiting.append(pod)
        cluster.serve(pod[0])
    cluster.waits += [arriving[-1][0] - arrived for arrived, _, _ in cluster.waiting]
    return cluster


def main(  # noqa: PLR0913 - each is an option of the command
    *,
    trace: Annotated[Path | None, typer.Option(help="Folder of openb's CSV files.")] = None,
    nodes: Annotated[int, typer.Option(help="Nodes of one card.")] = 16,
    pods: Annotated[int, typer.Option(help="Pods of a run.")] = 2000,
    load: Annotated[
        float, typer.Option(help="Part of all memory slices that is asked for on average.")
    ] = 0.7,
    pause: Annotated[
        float, typer.Option(help="Seconds after a division for which a node is not divided again.")
    ] = PAUSE_SECONDS,
    seeds: Annotated[int, typer.Option(help="Runs.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Compare who is served at once, and how long pods wait."""
    weights = profiles_of(eighths_of(trace) if trace is not None else EIGHTHS)
    watch = Watch()
    runs = [compare(weights, seed, nodes=nodes, pods=pods, load=load, pause=pause) for seed in range(seeds)]

    def figures(name: str, unit: str, of: dict[str, list[float]], bar: Bar | None) -> Figure:
        return Figure(name, unit, of["demand"], "best fixed division", of["fixed"], bar)

    at_once = {key: [_soon(run[i]) for run in runs] for i, key in enumerate(("demand", "fixed"))}
    waits = {key: [mean(run[i].waits) / 60 for run in runs] for i, key in enumerate(("demand", "fixed"))}
    report(
        "mig",
        [
            figures("pods that start within ten minutes", "%", at_once, None),
            figures("mean wait", "min", waits, Bar("<=", 1.0)),
            Figure("divisions per 100 pods", "", [100 * run[0].divisions / pods for run in runs]),
        ],
        watch,
        json_file,
        trace="openb" if trace is not None else "made up",
    )


def _soon(cluster: Cluster) -> float:
    return 100 * sum(wait <= 600 for wait in cluster.waits) / len(cluster.waits)  # noqa: PLR2004 - ten minutes


if __name__ == "__main__":
    typer.run(main)
