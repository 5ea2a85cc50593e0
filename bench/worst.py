"""Run with `python -m bench.worst`: what a review may cost at worst, for every list, map and text of a pod.

Each pod (bench/oversized.py) is reviewed three times by a reviewer that never met it, as in the webhook's
process: by the rules, by the rules and to learn its form, and from the patch cache if it has one. The dearest
of the three counts: it is one step of the event loop. Pods are as large as the rules decide, or just
so large that they keep most limits of webhook/admission/sizes.py.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
import uvloop

from bench.harness import Bar, Figure, report
from bench.instant_placer import ReadyPlacer
from bench.machine import MEASURED_CORE, Watch, pin
from bench.oversized import POLICIES, SIZE, Shape, shapes
from policies.loading.loader import load_policies
from service.http.limits import KIB
from service.log import configure_logging
from service.metrics import new_registry
from webhook.decision_log import DecisionLog
from webhook.metrics import WebhookMetrics
from webhook.patch_cache.cache import PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules

REVIEWS = 3
SIZES = {"512 KiB": SIZE, "384 KiB": 384 * KIB, "192 KiB": 192 * KIB, "60 kB": 60_000}
HELD = Bar("<=", 50)
"""Milliseconds."""


class Cost(NamedTuple):
    """What the dearest review of a pod costs, in milliseconds of CPU."""

    held: float
    shape: str


def main(
    rounds: Annotated[int, typer.Option(help="Rounds.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure how long a review of each kind of pod holds the event loop."""
    pin(MEASURED_CORE)
    watch = Watch()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    configure_logging()
    groups: dict[str, list[Shape]] = {}
    for shape in shapes():
        groups.setdefault(shape.group, []).append(shape)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(_measure(groups, rounds))
    report("worst", figures, watch, json_file)


async def _measure(groups: dict[str, list[Shape]], rounds: int) -> list[Figure]:
    bench = _Bench()
    gc.collect()
    gc.freeze()
    figures = []
    for size, count in SIZES.items():
        for group, members in groups.items():
            costs = [[await bench.cost(shape, count) for shape in members] for _ in range(rounds)]
            figures.append(_figure(f"loop held, worst of {len(members)} pods of {size}: {group}", costs))
    return figures


def _figure(name: str, costs: list[list[Cost]]) -> Figure:
    """Return the figure of the pod of a group that holds the loop for longest."""
    dearest = [max(each) for each in costs]
    return Figure(name, "ms CPU", [cost.held for cost in dearest], bar=HELD, note=max(dearest).shape)


class _Bench:
    """Reviews as the webhook's process has them."""

    def __init__(self) -> None:
        self._policies = load_policies(POLICIES)
        self._log = DecisionLog(WebhookMetrics(new_registry()))

    async def cost(self, shape: Shape, size: int) -> Cost:
        """Measure a pod."""
        body = shape.make(size)
        reviewer = Reviewer(lambda: self._policies, PatchCache(Rules()), ReadyPlacer(), self._log)
        return Cost(max([await _milliseconds(reviewer, body) for _ in range(REVIEWS)]), shape.name)


async def _milliseconds(reviewer: Reviewer, body: bytes) -> float:
    start = time.thread_time_ns()
    await reviewer.review(body)
    return (time.thread_time_ns() - start) / 1e6


if __name__ == "__main__":
    typer.run(main)
