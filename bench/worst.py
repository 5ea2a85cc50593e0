"""Run with `python -m bench.worst`: what a review may cost at worst, for every list, map and text of a pod.

Each pod (bench/oversized.py) is reviewed three times by a reviewer that never met it, as in the webhook's
process: by the rules, by the rules and to learn its form, and from the patch cache if it has one. The dearest
of the three counts: it is one step of the event loop. Pods are as large as the rules decide, or just
so large that they keep most limits of webhook/admission/sizes.py.

Then a namespace sends labelled pods of 256 KiB to a webhook process over 64 connections. The longest waits of
`/livez` and of a small review are compared with those just before.
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
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, NamedTuple

import httpx
import typer
import uvloop

from bench import bodies
from bench.client import closed_loop
from bench.harness import Bar, Figure, report
from bench.instant_placer import ReadyPlacer
from bench.machine import LOADING_CORE, MEASURED_CORE, Watch, pin
from bench.oversized import POLICIES, SIZE, Shape, shapes
from bench.processes import Server, webhook
from policies.loading.loader import load_policies
from service.http.limits import KIB
from service.http.sockets import bind
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
WAITS = Bar("<=", 0.5)
"""Seconds."""
CONNECTIONS = 64
SECONDS = 5.0
"""Of the control, and of the flood."""


class Cost(NamedTuple):
    """What the dearest review of a pod costs, in milliseconds of CPU."""

    held: float
    shape: str


def main(
    rounds: Annotated[int, typer.Option(help="Rounds.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure how long a review of each kind of pod holds the event loop."""
    watch = Watch()
    pin(LOADING_CORE)
    waits = _overload(rounds)
    pin(MEASURED_CORE)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    configure_logging()
    groups: dict[str, list[Shape]] = {}
    for shape in shapes():
        groups.setdefault(shape.group, []).append(shape)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(_measure(groups, rounds))
    report("worst", [*figures, *waits], watch, json_file)


def _overload(rounds: int) -> list[Figure]:
    """Measure the longest waits of others beside a flood of large pods of one namespace."""
    with bind("127.0.0.1", 0) as free:
        health = free.getsockname()[1]
    options = ["--health-port", str(health)]
    waits: dict[str, list[_Wait]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        webhook(Path(folder), *options) as server,
        httpx.Client(verify=False, timeout=60, trust_env=False) as client,  # noqa: S501 its CA is nobody's
        ProcessPoolExecutor(1, get_context("spawn")) as flooding,
    ):
        review = {"content": bodies.small(1)[0], "headers": {"content-type": "application/json"}}
        asks = {
            "/livez": partial(client.get, f"http://127.0.0.1:{health}/livez"),
            "a small review": partial(client.post, f"https://127.0.0.1:{server.port}/mutate", **review),
        }
        for _ in range(rounds):
            control = {name: _longest(server, ask) for name, ask in asks.items()}
            for name, ask in asks.items():
                flood = flooding.submit(_flood, server.port)
                waits.setdefault(name, []).append(_longest(server, ask) - control[name])
                print(f"beside {name}: {flood.result()}", flush=True)
    text = f"longest wait beside {CONNECTIONS} connections of pods of 256 KiB, less that without"
    return [
        Figure(f"{name}: {text}{what}", "s", values, bar=WAITS)
        for name, found in waits.items()
        for what, values in zip(("", ", CPU of the webhook only"), zip(*found, strict=True), strict=True)
    ]


class _Wait(NamedTuple):
    seconds: float
    cpu: float
    """Seconds of the webhook's CPU until the answer: foreign load does not lengthen it."""

    def __sub__(self, other: _Wait) -> _Wait:
        return _Wait(self.seconds - other.seconds, self.cpu - other.cpu)


def _longest(server: Server, ask: Callable[[], object]) -> _Wait:
    waits = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start, cpu = time.perf_counter(), _cpu_seconds(server)
        ask()
        waits.append(_Wait(time.perf_counter() - start, _cpu_seconds(server) - cpu))
    return _Wait(*map(max, zip(*waits, strict=True)))


def _cpu_seconds(server: Server) -> float:
    return int(Path(f"/proc/{server.pid}/schedstat").read_text().split()[0]) / 1e9


def _flood(port: int) -> str:
    """Load as many clients do; those that measure come first."""
    os.nice(10)
    answers = asyncio.run(closed_loop(port, bodies.padded(256 * KIB), CONNECTIONS, SECONDS))
    return f"{len(answers.latencies)} reviews answered, {len(answers.failures)} not, {set(answers.failures)}"


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
