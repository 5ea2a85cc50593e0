"""Run with `python -m bench.webhook`: the webhook as it is installed, over TLS, with a core of its own.

The process is `fraction-injector webhook` with a ledger of its own, its limits, log lines, metrics and audit
annotations. Beside it are A (the idiomatic webhook) and NULL (a constant answer) on the same server settings.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bench import bodies
from bench.client import Connection, no_check, response
from bench.harness import Bar, Figure, interleave, report
from bench.load import Load, press, tool
from bench.machine import LOADING_CORE, MEASURED_CORE, Watch, pin
from bench.processes import CHECKOUT, Server, on_core, serving, webhook, webhook_command
from service.http.sockets import bind

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
        _send(servers["ours"], clearml, requests)
        memory = servers["ours"].rss_mb
    figures.append(Figure(f"RSS after {requests:,} reviews", "MB", [memory]))
    figures.append(
        Figure("start to first good answer", "s", [_first_answer(clearml[0]) for _ in range(starts)])
    )
    report("webhook", figures, watch, json_file, load=tool())


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
    cpu = {key: [used for _, used in loads] for key, loads in measured.items()}
    return [
        Figure(f"{name}: CPU of a review", "us", cpu["ours"], reference, cpu[reference], bar),
        Figure(f"{name}: reviews a second and core", "", [load.rps for load, _ in measured["ours"]]),
    ]


def _pressed(server: Server, sample: Sequence[bytes], seconds: float) -> tuple[Load, float]:
    """Load one server; also give its CPU for each review, in microseconds."""
    before = server.cpu_seconds
    load = press(server.port, sample, CONNECTIONS, seconds)
    return load, (server.cpu_seconds - before) / load.requests * 1e6


def _send(server: Server, sample: Sequence[bytes], requests: int) -> None:
    sent, rate = 0, press(server.port, sample, CONNECTIONS, 1).rps
    while sent < requests:
        sent += press(server.port, sample, CONNECTIONS, max(1, min(20, (requests - sent) / rate))).requests


def _first_answer(body: bytes) -> float:
    """Seconds from the start of the process to its first good answer."""
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = webhook_command(Path(folder), "--port", str(port))
        start = time.perf_counter()
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=CHECKOUT) as process:
            on_core(process.pid, MEASURED_CORE)
            answer = asyncio.run(_until_answered(port, body))
            taken = time.perf_counter() - start
            process.terminate()
    assert json.loads(answer)["response"]["allowed"], answer
    return taken


async def _until_answered(port: int, body: bytes) -> bytes:
    connection = Connection(port, no_check())
    while True:
        try:
            answer = await connection.post(body)
        except OSError:
            await asyncio.sleep(0.002)
        else:
            connection.close()
            return answer


if __name__ == "__main__":
    typer.run(main)
