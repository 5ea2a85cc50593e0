"""Run with `python -m bench.handler`: CPU from a review's bytes to the answer's bytes, in one process.

Everything that a review costs apart from HTTP, TLS and placement: decoding, decision, patch, answer, audit
annotations, log line and metrics. The reference is json.loads of the same bytes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bench import bodies
from bench.harness import Bar, Figure, interleave, report
from bench.machine import MEASURED_CORE, Watch, pin
from policies.loading.loader import load_policies
from service.log import configure_logging
from service.metrics import new_registry
from testbed.instant_placer import ReadyPlacer
from testbed.oversized import POLICIES
from webhook.decision_log import DecisionLog
from webhook.metrics import WebhookMetrics
from webhook.review import Reviewer
from webhook.rules import Rules

BARS = {"small pod": Bar("<=", 3.5), "mesh-injected pod": Bar("<=", 1.2)}
ROUND = 64
"""Reviews in one round of the event loop, as with as many connections at once."""
SUBJECT_SECONDS = 0.15
"""CPU that one subject gets in one round."""

Work = Callable[[Sequence[bytes]], object]
Sample = Sequence[bytes]


def main(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.")] = 9,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure the handler against json.loads, body by body."""
    pin(MEASURED_CORE)
    watch = Watch()
    # The lines are made and written; a pipe's reader would be another process's CPU.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    configure_logging()
    handler = _handler()
    samples = {name: make() for name, make in bodies.KINDS.items()}
    # As the webhook does when it has loaded everything: else reviews would pay for looking at it all again.
    gc.collect()
    gc.freeze()
    figures = [_against_json(name, sample, handler, rounds) for name, sample in samples.items()]
    report("handler", figures, watch, json_file)


def _handler() -> Work:
    """The reviewer as the webhook process makes it."""
    policies = load_policies(POLICIES)
    log = DecisionLog(WebhookMetrics(new_registry()))
    reviewer = Reviewer(lambda: policies, Rules(), ReadyPlacer(), log)

    async def every(sample: Sample) -> None:
        """Answer as the server does, in an event loop that writes the log lines of each of its rounds."""
        for start in range(0, len(sample), ROUND):
            for body in sample[start : start + ROUND]:
                await reviewer.review(body)
            await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    return lambda sample: loop.run_until_complete(every(sample))


def _each(function: Callable[[bytes], object], sample: Sample) -> None:
    for body in sample:
        function(body)


def _microseconds(work: Work, sample: Sample) -> Callable[[], float]:
    """Measure the CPU of one body, in microseconds, over as many passes as fill SUBJECT_SECONDS."""
    work(sample)
    start = time.thread_time_ns()
    work(sample)
    passes = max(1, round(SUBJECT_SECONDS * 1e9 / max(1, time.thread_time_ns() - start)))
    # In one call: to start an event loop costs as much as several reviews, and is none of their cost.
    all_passes = [*sample] * passes

    def measure() -> float:
        start = time.thread_time_ns()
        work(all_passes)
        return (time.thread_time_ns() - start) / 1000 / len(all_passes)

    return measure


def _against_json(name: str, sample: Sample, handler: Work, rounds: int) -> Figure:
    subjects: dict[str, Work] = {"ours": handler, "json": partial(_each, json.loads)}
    measured = interleave({key: _microseconds(work, sample) for key, work in subjects.items()}, rounds)
    title = f"{name}, {len(sample[0]) / 1000:.0f} kB: a review"
    return Figure(title, "us CPU", measured["ours"], "json.loads", measured["json"], BARS.get(name))


if __name__ == "__main__":
    typer.run(main)
