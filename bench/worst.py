"""Run with `python -m bench.worst`: what a review may cost at worst, for every list, map and text of a pod.

Each pod (testbed/oversized.py) is reviewed three times, as in the webhook's process. The dearest of the three
counts: it is one step of the event loop.

Then a namespace sends labelled pods of 256 KiB to a webhook process over 64 connections. The longest waits of
`/livez` and of a small review of another namespace are compared with those just before.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import httpx
import typer
import uvloop

from bench import bodies
from bench.client import closed_loop
from bench.harness import Bar, Figure, report
from bench.machine import LOADING_CORE, MEASURED_CORE, Watch, pin
from bench.processes import webhook
from policies.loading.loader import load_policies
from service.http.limits import KIB
from service.http.sockets import bind
from service.log import configure_logging
from service.metrics import new_registry
from testbed.instant_placer import ReadyPlacer
from testbed.oversized import POLICIES, SIZE, Shape, shapes
from webhook.decision_log import DecisionLog
from webhook.metrics import WebhookMetrics
from webhook.review import Reviewer
from webhook.rules import Rules

REVIEWS = 3
SIZES = {"512 KiB": SIZE, "256 KiB": 256 * KIB, "128 KiB": 128 * KIB, "60 kB": 60_000}
"""The smaller pods keep most limits of webhook/admission/sizes.py, so that the rules walk all of them."""
HELD = Bar("<=", 50)
"""Milliseconds."""
LINEAR = Bar("<=", 2.2)
"""Of 512 KiB against 256 KiB, all pods together."""
WAITS = Bar("<=", 0.5)
"""Seconds."""
CONNECTIONS = 64
JSON = {"content-type": "application/json"}
SECONDS = 5.0
"""Of the control, and of the flood."""

Cost = tuple[float, str]
"""Milliseconds of CPU of the dearest review, and what the pod is made of."""


def main(
    rounds: Annotated[int, typer.Option(help="Rounds.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure how long a review of each kind of pod holds the event loop, and waits beside a flood."""
    watch = Watch()
    pin(LOADING_CORE)
    waits = _overload(rounds)
    pin(MEASURED_CORE)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    configure_logging()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(_measure(rounds))
    report("worst", [*figures, *waits], watch, json_file)


def _overload(rounds: int) -> list[Figure]:
    """Measure the longest waits of others beside a flood of large pods of one namespace."""
    with bind("127.0.0.1", 0) as free:
        health = free.getsockname()[1]
    waits: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        webhook(Path(folder), "--health-port", str(health)) as server,
        httpx.Client(verify=False, timeout=60, trust_env=False, headers=JSON) as client,  # noqa: S501 its own
        ProcessPoolExecutor(1, get_context("spawn")) as flooding,
    ):
        review = bodies.small(1)[0]
        asks = {
            "/livez": lambda: client.get(f"http://127.0.0.1:{health}/livez"),
            "another's review": lambda: client.post(
                f"https://127.0.0.1:{server.port}/mutate", content=review
            ),
        }
        for _ in range(rounds):
            for name, ask in asks.items():
                control = _longest(ask)
                flood = flooding.submit(_flood, server.port)
                waits.setdefault(name, []).append(_longest(ask) - control)
                print(f"beside {name}: {flood.result()}", flush=True)
    text = f"longer wait beside {CONNECTIONS} connections of pods of 256 KiB"
    return [Figure(f"{name}: {text}", "s", values, bar=WAITS) for name, values in waits.items()]


def _longest(ask: Callable[[], httpx.Response]) -> float:
    longest, end = 0.0, time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        assert ask().is_success
        longest = max(longest, time.perf_counter() - start)
    return longest


def _flood(port: int) -> str:
    """Load as many clients do; those that measure come first."""
    os.nice(10)
    answers = asyncio.run(closed_loop(port, bodies.padded(256 * KIB), CONNECTIONS, SECONDS))
    return f"{answers.good} reviews answered, {len(answers.failures)} not, {set(answers.failures)}"


async def _measure(rounds: int) -> list[Figure]:
    groups: dict[str, list[Shape]] = {}
    for shape in shapes():
        groups.setdefault(shape.group, []).append(shape)
    policies, log = load_policies(POLICIES), DecisionLog(WebhookMetrics(new_registry()))
    gc.collect()
    gc.freeze()

    async def cost(shape: Shape, size: int) -> float:
        reviewer = Reviewer(lambda: policies, Rules(), ReadyPlacer(), log)
        body = shape.make(size)
        return max([await _milliseconds(reviewer, body) for _ in range(REVIEWS)])

    figures, totals = [], dict[str, list[float]]()
    for group, members in groups.items():
        dearest: list[Cost] = []
        for number in range(rounds):
            costs = {(size, each): await cost(each, SIZES[size]) for size in SIZES for each in members}
            dearest.append(max((taken, f"{size}: {each.name}") for (size, each), taken in costs.items()))
            for size in SIZES:
                totals.setdefault(size, [0.0] * rounds)[number] += sum(costs[size, each] for each in members)
        name = f"loop held, worst of {len(members)} pods: {group}"
        figures.append(Figure(name, "ms CPU", [held for held, _ in dearest], bar=HELD, note=max(dearest)[1]))
    large, half = totals["512 KiB"], totals["256 KiB"]
    return [*figures, Figure("all pods of 512 KiB together", "ms CPU", large, "256 KiB", half, LINEAR)]


async def _milliseconds(reviewer: Reviewer, body: bytes) -> float:
    start = time.thread_time_ns()
    await reviewer.review(body)
    return (time.thread_time_ns() - start) / 1e6


if __name__ == "__main__":
    typer.run(main)
