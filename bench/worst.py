"""Run with `python -m bench.worst`: what a review may cost at worst, for every list, map and text of a pod.

Each pod (bench/oversized.py) is reviewed three times by a reviewer that never met it, as in the webhook's
process: by the rules, by the rules and to learn its form, and from the patch cache if it has one. The dearest
of the three counts. Once the pod is as large as pods can be, once just so small that no worker takes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
import uvloop
from prometheus_client import CollectorRegistry

from bench.harness import Bar, Figure, report
from bench.instant_placer import ReadyPlacer
from bench.machine import MEASURED_CORE, Watch, pin
from bench.oversized import POLICIES, SIZE, Shape, shapes
from policies.loading.loader import load_policies
from service.log import configure_logging
from webhook.checked_rules import CheckedRules
from webhook.decision_log import DecisionLog
from webhook.metrics import WebhookMetrics
from webhook.patch_cache.cache import PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules
from webhook.worker.limits import INLINE_BYTES
from webhook.worker.workers import Workers

REVIEWS = 3
SIZES = {"3 MiB": SIZE, "256 KiB": INLINE_BYTES}
TIMES_JSON, MORE_MS = 3, 50
"""A review may cost so many times what json.loads of its bytes does, and so many milliseconds more."""
TOTAL = Bar("<=", 1)
HELD = Bar("<=", 50)
"""Milliseconds: half of what anybody else may wait for."""


class Cost(NamedTuple):
    """What the dearest review of a pod costs, in milliseconds of CPU."""

    held: float
    """Of the event loop, all its steps together."""
    total: float
    """With the worker's."""
    allowed: float
    shape: str


def main(
    rounds: Annotated[int, typer.Option(help="Rounds.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure a review of each kind of pod against what it may cost, and how long it holds the event loop."""
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
            figures += _figures(f"of {len(members)} pods of {size}: {group}", costs)
    return figures


def _figures(name: str, costs: list[list[Cost]]) -> list[Figure]:
    """Those of a group that hold the loop for longest, and that come nearest to what they may cost."""
    held = [max(each, key=lambda cost: cost.held) for each in costs]
    dearest = [max(each, key=lambda cost: cost.total / cost.allowed) for each in costs]
    return [
        Figure(
            f"loop held, worst {name}",
            "ms CPU",
            [cost.held for cost in held],
            bar=HELD,
            note=max(held, key=lambda cost: cost.held).shape,
        ),
        Figure(
            f"all CPU, worst {name}",
            "ms CPU",
            [cost.total for cost in dearest],
            f"{TIMES_JSON} x json.loads + {MORE_MS} ms",
            [cost.allowed for cost in dearest],
            TOTAL,
            max(dearest, key=lambda cost: cost.total / cost.allowed).shape,
        ),
    ]


class _Bench:
    """Reviews as the webhook's process has them."""

    def __init__(self) -> None:
        self._policies = load_policies(POLICIES)
        self._registry = CollectorRegistry()
        metrics = WebhookMetrics(self._registry)
        self._log = DecisionLog(metrics)
        self._workers = Workers(metrics.workers)

    async def cost(self, shape: Shape, size: int) -> Cost:
        """Measure a pod."""
        body = shape.make(size)
        reviewer = Reviewer(
            lambda: self._policies, PatchCache(CheckedRules(Rules())), ReadyPlacer(), self._log, self._workers
        )
        with self._workers.budget.enforced():
            costs = [await self._review(reviewer, body) for _ in range(REVIEWS)]
        # Too deep, or a number of too many digits.
        with contextlib.suppress(RecursionError, ValueError):
            json.loads(body)
        start = time.thread_time_ns()
        with contextlib.suppress(RecursionError, ValueError):
            json.loads(body)
        allowed = TIMES_JSON * (time.thread_time_ns() - start) / 1e6 + MORE_MS
        return Cost(max(held for held, _ in costs), max(total for _, total in costs), allowed, shape.name)

    async def _review(self, reviewer: Reviewer, body: bytes) -> tuple[float, float]:
        """Milliseconds of CPU of the loop only, and of it and the worker."""
        used, start = self._used(), time.thread_time_ns()
        await reviewer.review(body)
        await self._workers.gone()
        held = (time.thread_time_ns() - start) / 1e6
        return held, held + 1000 * (self._used() - used)

    def _used(self) -> float:
        return self._registry.get_sample_value("fraction_injector_worker_cpu_seconds_total") or 0.0


if __name__ == "__main__":
    typer.run(main)
