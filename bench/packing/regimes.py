"""Run with `python -m bench.packing.regimes`: placement on clusters for which nothing was tuned.

Each regime is a generator with a seed: unlike nodes, pods that request MiB or name models, zones and taints,
odd orders, bursts and heavy-tailed lives, changes of the mix, equal nodes.
*Filling* counts what is allocated when the pods that arrived request all GPUs. *Churn* counts what is refused
while pods come and go. Ours is compared with first fit, best fit (filling: the fullest node; churn: the
fullest GPU) and FGD, which knows the mix, with itself if it learns nothing, and with what the rules of
commit ebcb222d came to with the same seeds. What a pod requests does not depend on where it goes
(`MixedCluster.requested`).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, Literal, Protocol

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from bench.packing.mixed import (
    EIGHTHS,
    MIB,
    PHILLY,
    SMALL_MIB,
    Arrival,
    Mix,
    MixedCluster,
    MixedPod,
    equal,
    filling,
    in_order,
    naming,
    one_of,
    sizes,
    unlike,
)
from bench.packing.mixed_rules import Fgd, FirstFit, FullestGpu, FullestNode, Ours, Unlearnt

BEHIND_BEST = 1.0
"""Points that ours may be behind the best reference, in the mean of the seeds."""
LOAD, LOAD_BEFORE = 0.95, 0.5
"""Work that arrives where pods come and go, as a share of the GPUs; before a change of the mix.

Before a change every rule finds room for all pods: one that refused some would have more room after it.
"""
WARM_UP, LIVES = 3.0, 15.0
"""Mean lives before counting begins, and in which pods arrive."""
AFTER_CHANGE = 2.0
"""Mean lives that are counted after a change of the mix."""
COMING = 2000
"""Pods by which FGD knows the mix."""
_TAIL = 1.5
"""Exponent of heavy-tailed lives (Pareto)."""
_BURST = 12
"""Equal pods of a burst, on average."""
REFERENCES = ("first fit", "best fit", "FGD")
BEHIND_UNLEARNT = 0.5
"""Points that ours may be behind itself without what it learnt, in the mean."""
BEHIND_EARLIER = 0.2
"""Points that ours may be behind commit ebcb222d, in the mean of all regimes."""
SEEDS = range(100, 103)
"""Of which the figures of ebcb222d are known."""
RULES = (*REFERENCES, "unlearnt", "ours")
Kind = Literal["filling", "churn"]


class Rule(Protocol):
    """Where pods are placed and leave."""

    def take(self, name: str, pod: MixedPod) -> Any:
        """Place a pod; None if there is no room, else what `give_back` wants."""

    def give_back(self, taken: Any) -> None:
        """Let a pod go."""


@dataclass(frozen=True, slots=True)
class Regime:
    """A cluster, and what arrives, by a seed."""

    kind: Kind
    cluster: Callable[[int], MixedCluster]
    arrivals: Callable[[MixedCluster, random.Random], list[Arrival]]
    coming: Mix
    """What FGD expects."""
    counted_from: float = WARM_UP


def _lives(rng: random.Random) -> float:
    return rng.expovariate(1)


def _heavy_lives(rng: random.Random) -> float:
    return rng.paretovariate(_TAIL) * (_TAIL - 1) / _TAIL


@dataclass(frozen=True, slots=True)
class Stream:
    """Pods that come and go: of one mix after the other, until the times beside them."""

    mixes: Sequence[tuple[float, Mix, float]]
    """Until when, which pods, and how much work arrives."""
    lives: Callable[[random.Random], float] = _lives
    burst: int = 1
    """Equal pods that come at once, on average."""

    def arrivals(self, cluster: MixedCluster, rng: random.Random) -> list[Arrival]:
        """Draw the pods."""
        now, made = 0.0, list[Arrival]()
        for until, mix, load in self.mixes:
            average = mean([cluster.requested(cluster.drawn(mix, rng)) for _ in range(COMING)])
            rate = load * cluster.gpus / average / self.burst
            while (now := now + rng.expovariate(rate)) < until:
                pod = cluster.drawn(mix, rng)
                for _ in range(rng.randint(1, 2 * self.burst - 1)):
                    made.append(Arrival(f"p{len(made)}", pod, now, self.lives(rng)))
            now = until
        return made


def _churn(mix: Mix, cluster: Callable[[int], MixedCluster] = unlike, **how: Any) -> Regime:
    return Regime("churn", cluster, Stream([(LIVES, mix, LOAD)], **how).arrivals, mix)


def _fill(
    mix: Mix,
    cluster: Callable[[int], MixedCluster] = unlike,
    order: Callable[[MixedCluster, list[Arrival]], list[Arrival]] | None = None,
) -> Regime:
    def arrivals(nodes: MixedCluster, rng: random.Random) -> list[Arrival]:
        made = filling(nodes, mix, rng)
        return made if order is None else order(nodes, made)

    return Regime("filling", cluster, arrivals, mix)


def _change(before: Mix, after: Mix, cluster: Callable[[int], MixedCluster] = unlike) -> Regime:
    end = LIVES / 2
    phases = [(end, before, LOAD_BEFORE), (end + AFTER_CHANGE, after, LOAD)]
    return Regime("churn", cluster, Stream(phases).arrivals, after, end)


def _smallest_first(nodes: MixedCluster, made: list[Arrival]) -> list[Arrival]:
    return in_order(made, nodes.requested)


def _largest_first(nodes: MixedCluster, made: list[Arrival]) -> list[Arrival]:
    return in_order(made, lambda pod: -nodes.requested(pod))


def _small_and_large(nodes: MixedCluster, made: list[Arrival]) -> list[Arrival]:
    """The smallest, the largest, the second smallest and so on."""
    rising = _smallest_first(nodes, made)
    ends = chain.from_iterable(zip(rising, reversed(rising), strict=True))
    return list(ends)[: len(rising)]


def _selective_last(_nodes: MixedCluster, made: list[Arrival]) -> list[Arrival]:
    """Pods that may go anywhere come first."""
    return in_order(made, lambda pod: bool(pod.model) + bool(pod.zone) - pod.tolerates)


NAMED = naming(EIGHTHS, models=0.25, zones=0.1, tolerate=0.3)
MIXED = naming(one_of((1, MIB), (2, EIGHTHS)), models=0.1, zones=0.05, tolerate=0.5)
ALL_TOLERATE = naming(one_of((1, MIB), (2, EIGHTHS)), models=0.1, tolerate=1.0)
MIB_ONLY = naming(MIB, tolerate=1.0)
MIB_SMALL = naming(SMALL_MIB, tolerate=1.0)
LARGE = naming(sizes(g1=10, g2=4, g4=2), tolerate=1.0)
SMALL = naming(sizes(s1=10, s2=10, s3=5), tolerate=1.0)
LARGE_MIB = naming(one_of((1, MIB), (1, sizes(g1=10, g2=4, s6=4))), models=0.1, tolerate=1.0)

REGIMES: Mapping[str, Regime] = {
    "mixed": _fill(MIXED),
    "mixed, churn": _churn(MIXED),
    "MiB only": _fill(MIB_ONLY),
    "MiB only, churn": _churn(MIB_ONLY),
    "small MiB": _fill(MIB_SMALL),
    "small MiB, churn": _churn(MIB_SMALL),
    "names and taints": _fill(NAMED),
    "names and taints, churn": _churn(NAMED),
    "all tolerate": _fill(ALL_TOLERATE),
    "all tolerate, churn": _churn(ALL_TOLERATE),
    "smallest first": _fill(MIXED, order=_smallest_first),
    "smallest first, no MiB": _fill(NAMED, order=_smallest_first),
    "largest first": _fill(MIXED, order=_largest_first),
    "small and large in turn": _fill(MIXED, order=_small_and_large),
    "selective pods last": _fill(NAMED, order=_selective_last),
    "heavy-tailed lives": _churn(MIXED, lives=_heavy_lives),
    "bursts": _churn(MIXED, burst=_BURST),
    "bursts, no MiB": _churn(NAMED, burst=_BURST),
    "from small to large": _change(SMALL, LARGE),
    "from large to small": _change(LARGE, SMALL),
    "from eighths to MiB": _change(NAMED, LARGE_MIB),
    "from MiB to eighths": _change(MIB_ONLY, NAMED),
    "equal nodes, Philly": _fill(PHILLY, lambda _: equal()),
    "equal nodes, Philly, churn": _churn(PHILLY, lambda _: equal()),
    "equal nodes, eighths, churn": _churn(EIGHTHS, lambda _: equal(40, 4)),
}

EARLIER_MEANS = (
    "98.79 9.21 90.35 12.79 54.97 45.25 95.7 13.98 100.12 6.71 93.21 89.14 98.48"
    " 99.56 89.48 4.8 22.11 29.54 16.75 0.0 0.52 10.62 99.95 10.32 7.2"
)
EARLIER = dict(zip(REGIMES, map(float, EARLIER_MEANS.split()), strict=True))
"""Means of ours at ebcb222d over SEEDS."""


def allocated(cluster: MixedCluster, rule: Rule, arrivals: Sequence[Arrival]) -> float:
    """Per cent of the GPUs that are allocated when all pods have arrived and none has left."""
    placed = [each.pod for each in arrivals if rule.take(each.name, each.pod) is not None]
    return 100 * sum(map(cluster.requested, placed)) / cluster.gpus


def refused(cluster: MixedCluster, rule: Rule, arrivals: Sequence[Arrival], counted_from: float) -> float:
    """Per cent of what is requested from a time on that finds no room."""
    ends: list[tuple[float, int, Any]] = []
    requested = lost = 0.0
    for number, each in enumerate(arrivals):
        while ends and ends[0][0] <= each.at:
            rule.give_back(heapq.heappop(ends)[2])
        taken = rule.take(each.name, each.pod)
        if taken is not None:
            heapq.heappush(ends, (each.at + each.lasts, number, taken))
        if each.at >= counted_from:
            amount = cluster.requested(each.pod)
            requested += amount
            lost += amount if taken is None else 0
    return 100 * lost / requested


def rules(regime: Regime, cluster: MixedCluster, seed: int) -> Iterator[tuple[str, Callable[[], Rule]]]:
    """Yield the references and ours, by name."""
    rng = random.Random(f"coming {seed}")  # noqa: S311 - a repeatable experiment, no secret
    best_fit = FullestNode if regime.kind == "filling" else FullestGpu
    yield "first fit", lambda: FirstFit(cluster)
    yield "best fit", lambda: best_fit(cluster)
    yield "FGD", lambda: Fgd(cluster, [cluster.drawn(regime.coming, rng) for _ in range(COMING)])
    yield "unlearnt", lambda: Unlearnt(cluster)
    yield "ours", lambda: Ours(cluster)


def measure(name: str, seed: int, only: Sequence[str] = RULES) -> dict[str, float]:
    """Return the figure of each rule in a regime, for one seed."""
    regime = REGIMES[name]
    cluster = regime.cluster(seed)
    # The same pods arrive for each rule.
    rng = random.Random(f"{name} {seed}")  # noqa: S311 - a repeatable experiment, no secret
    arrivals = regime.arrivals(cluster, rng)
    return {
        rule: _figure(regime, cluster, make(), arrivals)
        for rule, make in rules(regime, cluster, seed)
        if rule in only
    }


def _figure(regime: Regime, cluster: MixedCluster, rule: Rule, arrivals: Sequence[Arrival]) -> float:
    if regime.kind == "filling":
        return allocated(cluster, rule, arrivals)
    return refused(cluster, rule, arrivals, regime.counted_from)


def ahead(kind: Kind, theirs: float, ours: float) -> float:
    """Points by which ours is better."""
    return ours - theirs if kind == "filling" else theirs - ours


def main(
    seeds: Annotated[int, typer.Option(help="Clusters and streams of each regime.")] = len(SEEDS),
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = SEEDS.start,
    only: Annotated[str, typer.Option(help="Regimes whose names contain this.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Compare ours with first fit, best fit and FGD in every regime."""
    watch, figures, used = Watch(), list[Figure](), range(first_seed, first_seed + seeds)
    found = {name: [measure(name, seed) for seed in used] for name in REGIMES if only in name}
    for name, by_seed in found.items():
        figures += _figures(name, REGIMES[name], by_seed)
    if used == SEEDS:
        figures.append(_against_earlier(found))
    report("regimes", figures, watch, json_file)


def _figures(name: str, regime: Regime, found: Sequence[Mapping[str, float]]) -> list[Figure]:
    """Ours beside the reference with the best mean."""
    by_rule = {rule: [each[rule] for each in found] for rule in RULES}
    best = max(REFERENCES, key=lambda rule: ahead(regime.kind, 0, mean(by_rule[rule])))
    unit = {"filling": "% of GPUs", "churn": "% refused"}[regime.kind]

    def behind(rule: str) -> float:
        return mean(map(ahead, repeat(regime.kind), by_rule["ours"], by_rule[rule]))

    unlearnt = Bar("<=", BEHIND_UNLEARNT)
    return [
        Figure(name, unit, [mean(by_rule["ours"])], best, [mean(by_rule[best])]),
        Figure(f"{name}: behind {best}", "points", [behind(best)], bar=Bar("<=", BEHIND_BEST)),
        Figure(f"{name}: behind itself unlearnt", "points", [behind("unlearnt")], bar=unlearnt),
    ]


def _against_earlier(found: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    behind = [
        ahead(REGIMES[name].kind, mean([each["ours"] for each in by_seed]), EARLIER[name])
        for name, by_seed in found.items()
    ]
    name = f"behind ebcb222d, mean of {len(behind)} regimes"
    return Figure(name, "points", [mean(behind)], bar=Bar("<=", BEHIND_EARLIER))


if __name__ == "__main__":
    typer.run(main)
