"""Run with `python -m bench.starved`, as root: a webhook and its controller, one of them with little CPU.

A cgroup takes the CPU away, as the limit of a container does. Every review must still be placed by the
controller: those placed without it are counted. A stopped controller (SIGSTOP) is the other case: it must be
given up, and the longest wait is shown.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bench import bodies
from bench.client import Answers, closed_loop, response
from bench.cpu_quota import cpu_quota
from bench.harness import Bar, Figure, report
from bench.machine import LOADING_CORE, Watch, pin
from bench.processes import Server, asking_webhook
from bench.webhook_with_controller import placed_alone, serving_controller
from testbed.controller_process import write_tls

CONNECTIONS = 64
ADMISSION_SECONDS = 5.0
"""What an API server waits for a review, `webhook.timeoutSeconds` of the chart."""


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    controller: float = 1.0
    """Of a core."""
    webhook: float = 1.0


CASES = (
    _Case("controller with 10 % of a core", controller=0.10),
    _Case("controller with 3 % of a core", controller=0.03),
    _Case("webhook with 10 % of a core", webhook=0.10),
    _Case("webhook with 5 % of a core", webhook=0.05),
    _Case("both with 10 % of a core", controller=0.10, webhook=0.10),
)


def main(
    *,
    seconds: Annotated[float, typer.Option(help="Seconds of load in each case.")] = 20,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Count pods that are placed without a controller that is only slow."""
    pin(LOADING_CORE)
    watch, sample, figures = Watch(), bodies.clearml(), []
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        tls = write_tls(Path(folder) / "tls")
        controller = stack.enter_context(serving_controller(tls))
        webhook = stack.enter_context(asking_webhook(tls, f"https://localhost:{controller.port}"))
        assert response(webhook.port, sample[0])["patch"]
        for case in CASES:
            before = placed_alone(webhook, tls)
            with cpu_quota(controller.pid, case.controller), cpu_quota(webhook.pid, case.webhook):
                answers = asyncio.run(closed_loop(webhook.port, sample, CONNECTIONS, seconds))
            figures += _figures(case.name, answers, placed_alone(webhook, tls) - before)
        with _stopped(controller):
            answers = asyncio.run(closed_loop(webhook.port, sample, CONNECTIONS, seconds))
        bar = Bar("<=", ADMISSION_SECONDS)
        figures.append(Figure("stopped controller: longest review", "s", [max(answers.latencies)], bar=bar))
    report("starved", figures, watch, json_file)


def _figures(name: str, answers: Answers, alone: float) -> list[Figure]:
    if answers.failures:
        raise RuntimeError(f"{len(answers.failures)} requests failed: {answers.failures[0]}")
    return [
        Figure(f"{name}: placed without the controller", "pods", [alone], bar=Bar("<=", 0)),
        Figure(f"{name}: reviews", "", [len(answers.latencies)]),
        Figure(f"{name}: longest review", "s", [max(answers.latencies)], bar=Bar("<=", ADMISSION_SECONDS)),
    ]


@contextmanager
def _stopped(server: Server) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


if __name__ == "__main__":
    typer.run(main)
