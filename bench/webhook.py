"""Run with `python -m bench.webhook`: the webhook as it is installed, over TLS, with a core of its own.

The process is `fraction-injector webhook` with a ledger of its own, its limits, log lines, metrics and audit
annotations. Beside it are A (the idiomatic webhook) and NULL (a constant answer) on the same server settings.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bench import bodies
from bench.client import press, response
from bench.harness import Bar, Figure, interleave, report
from bench.machine import LOADING_CORE, Watch, pin
from bench.processes import Server, serving, webhook

OF_A = Bar("<=", 1 / 12)
KAI_SMALL, KAI_MESHED = 456 / 27, 2982 / 38
"""CPU of KAI-Scheduler's webhook over that of NULL, in one interleaved run, for 3.5 and for 21 kB."""
OF_NULL = {
    "3.5 kB": Bar("<=", round(KAI_SMALL / 3, 1)),
    "21 kB": Bar("<=", round(KAI_MESHED / 10, 1)),
    "3.5 kB, never met before": Bar("<=", round(KAI_SMALL / 2, 1)),
}
CONNECTIONS = 16


def main(
    *,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.")] = 5,
    seconds: Annotated[float, typer.Option(help="Seconds of load for each server in a round.")] = 3,
    starts: Annotated[int, typer.Option(help="Starts of the process.")] = 5,
    requests: Annotated[int, typer.Option(help="Requests before memory is read.")] = 300_000,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure CPU and throughput, memory and start."""
    pin(LOADING_CORE)
    watch = Watch()
    clearml = bodies.clearml()
    samples = dict(zip(OF_NULL, (bodies.small(), bodies.meshed(), bodies.unlike_small()), strict=True))
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        servers = {name: stack.enter_context(serving(name)) for name in ("A", "NULL")}
        servers["ours"] = stack.enter_context(webhook(Path(folder)))
        for sample in (clearml, *samples.values()):
            # Denials are answers too, and quick ones: what is measured must be patches.
            answer = response(servers["ours"].port, sample[0])
            assert answer["allowed"], answer
            assert answer["patch"], answer
        figures = _compared("ClearML's pod, 13 kB", clearml, (servers, "A"), (rounds, seconds), OF_A)
        for name, bar in OF_NULL.items():
            figures += _compared(name, samples[name], (servers, "NULL"), (rounds, seconds), bar)
        sent = 0
        while sent < requests:
            sent += press(servers["ours"].port, clearml, CONNECTIONS, min(20, requests / 100))
        memory = servers["ours"].rss_mb
    figures.append(Figure(f"RSS after {sent:,} reviews", "MB", [memory]))
    figures.append(
        Figure("start to first good answer", "s", [_first_answer(clearml[0]) for _ in range(starts)])
    )
    report("webhook", figures, watch, json_file)


def _compared(
    name: str,
    sample: Sequence[bytes],
    against: tuple[dict[str, Server], str],
    effort: tuple[int, float],
    bar: Bar,
) -> list[Figure]:
    servers, reference = against
    rounds, seconds = effort
    subjects = {key: partial(_pressed, servers[key], sample, seconds) for key in ("ours", reference)}
    measured = interleave(subjects, rounds)
    return [
        Figure(f"{name}: CPU of a review", "us", measured["ours"], reference, measured[reference], bar),
        Figure(f"{name}: reviews a second and core", "", [1e6 / cpu for cpu in measured["ours"]]),
    ]


def _pressed(server: Server, sample: Sequence[bytes], seconds: float) -> float:
    """CPU of each review of a load, in microseconds."""
    before = server.cpu_seconds
    count = press(server.port, sample, CONNECTIONS, seconds)
    return (server.cpu_seconds - before) / count * 1e6


def _first_answer(body: bytes) -> float:
    """Seconds from the start of the process to its first good answer."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, webhook(Path(folder)) as server:
        answer = response(server.port, body)
        taken = time.perf_counter() - start
    assert answer["allowed"], answer
    return taken


if __name__ == "__main__":
    typer.run(main)
