"""Run with `python -m bench.webhook`: the webhook over TLS on one core, the load on the other.

Beside A (the idiomatic webhook) and NULL (a constant answer), all on the same server settings. Logging,
metrics and audit annotations are on; placement is answered at once, or by a ledger in the process where it
says so.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from bench import bodies
from bench.client import Answers, Connection, no_check, open_loop, response
from bench.harness import Bar, Figure, interleave, report
from bench.load import Load, press, tool
from bench.machine import LOADING_CORE, MEASURED_CORE, Watch, pin
from bench.processes import CHECKOUT, Server, on_core, serving, webhook, webhook_command
from service.http.sockets import bind

A_BAR = Bar(">=", 12)
WITH_BARS = "ClearML pod", "ClearML pod, pretty-printed"
CONCURRENCY = 16
CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64)
RATES = (50, 200, 1000)
SWEEP_SECONDS = 2.0
OPEN_LOOP_SECONDS = 4.0
REST_SECONDS = 10.0


def main(  # noqa: PLR0913 each is an option of the command
    *,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.")] = 5,
    seconds: Annotated[float, typer.Option(help="Seconds of load for each server in a round.")] = 3,
    starts: Annotated[int, typer.Option(help="Starts of the process, with and without kubernetes.")] = 7,
    requests: Annotated[int, typer.Option(help="Requests before memory is read.")] = 300_000,
    more: Annotated[int, typer.Option(help="Further requests before it is read again.")] = 100_000,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure throughput, latency, memory and start."""
    pin(LOADING_CORE)
    watch = Watch()
    print(f"load: {tool()}; server on core {MEASURED_CORE}, load on core {LOADING_CORE}")
    samples = {"ClearML pod": bodies.clearml(), "bare pod": bodies.bare()}
    samples[WITH_BARS[1]] = bodies.pretty(samples["ClearML pod"])
    figures: list[Figure] = []
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        servers = {name: stack.enter_context(serving(name)) for name in ("ours", "A", "NULL")}
        servers["ledger"] = stack.enter_context(webhook(Path(folder)))
        for name, sample in samples.items():
            _check_answers(servers, sample)
            figures += _throughput(name, sample, servers, rounds, seconds)
        figures.append(_unlike(servers, rounds, seconds))
        figures += _connections(samples["ClearML pod"], servers, rounds)
        sweep = _sweep(samples["ClearML pod"], servers)
        at_rates = {rate: _at_rate(rate, samples["ClearML pod"], servers, rounds) for rate in RATES}
    figures += _memory(samples["ClearML pod"], requests, more)
    figures += _start(samples["ClearML pod"][0], starts)
    figures += [figure for rate, found in at_rates.items() for figure in _latencies(rate, found)]
    curves = {rate: _percentiles(found) for rate, found in at_rates.items()}
    report("webhook", figures, watch, json_file, load=tool(), concurrency=sweep, rates=curves)


def _check_answers(servers: Mapping[str, Server], sample: Sequence[bytes]) -> None:
    """Denials are answers too, and quick ones: what is measured must be patches, with audit annotations."""
    answers = {name: response(server.port, sample[0]) for name, server in servers.items()}
    assert all(answers[name]["allowed"] and answers[name]["patch"] for name in ("ours", "ledger", "A")), (
        answers
    )
    assert all(answers[name]["auditAnnotations"] for name in ("ours", "ledger")), answers


def _throughput(
    name: str, sample: Sequence[bytes], servers: Mapping[str, Server], rounds: int, seconds: float
) -> list[Figure]:
    """Throughput and p99, and the same comparisons by CPU per review, which foreign load disturbs less."""
    subjects = {key: partial(_pressed, server, sample, seconds) for key, server in servers.items()}
    loads: dict[str, list[tuple[Load, float]]] = interleave(subjects, rounds)
    rps = {key: [load.rps for load, _ in measured] for key, measured in loads.items()}
    p99 = {key: [load.p99_ms for load, _ in measured] for key, measured in loads.items()}
    cpu = {key: [used for _, used in measured] for key, measured in loads.items()}
    bar = A_BAR if name in WITH_BARS else None
    return [
        Figure(f"{name}: against A", "rps", rps["ours"], "A", rps["A"]),
        Figure(f"{name}: A's CPU / ours", "us CPU", cpu["A"], "ours", cpu["ours"], bar),
        Figure(f"{name}: A's CPU / ours with its ledger", "us CPU", cpu["A"], "ours", cpu["ledger"], bar),
        Figure(f"{name}: against NULL", "rps", rps["ours"], "NULL", rps["NULL"]),
        Figure(f"{name}: NULL's CPU / ours", "us CPU", cpu["NULL"], "ours", cpu["ours"]),
        Figure(f"{name}: p99", "ms", p99["ours"], "NULL", p99["NULL"]),
        Figure(f"{name}: with the ledger in its process", "rps", rps["ledger"], "NULL", rps["NULL"]),
    ]


def _unlike(servers: Mapping[str, Server], rounds: int, seconds: float) -> Figure:
    """Throughput where nothing that was remembered of one pod serves for the next one."""
    sample = bodies.unlike()
    subjects = {name: partial(_pressed, servers[name], sample, seconds) for name in ("ours", "NULL")}
    measured = interleave(subjects, rounds)
    ours, null = ([load.rps for load, _ in measured[name]] for name in subjects)
    return Figure("ClearML pods, no two alike: against NULL", "rps", ours, "NULL", null)


def _pressed(server: Server, sample: Sequence[bytes], seconds: float) -> tuple[Load, float]:
    """Load one server; also give its CPU for each review, in microseconds."""
    before = server.cpu_seconds
    load = press(server.port, sample, CONCURRENCY, seconds)
    return load, (server.cpu_seconds - before) / load.requests * 1e6


def _connections(sample: Sequence[bytes], servers: Mapping[str, Server], rounds: int) -> list[Figure]:
    """What a new connection for each review costs, in CPU of the server."""
    ours = servers["ours"]

    def cpu(*, keep_alive: bool) -> float:
        before = ours.cpu_seconds
        load = press(ours.port, sample, CONCURRENCY, SWEEP_SECONDS, keep_alive=keep_alive)
        return (ours.cpu_seconds - before) / load.requests * 1e6

    subjects = {"new": partial(cpu, keep_alive=False), "kept": partial(cpu, keep_alive=True)}
    measured = interleave(subjects, max(3, rounds // 2))
    return [Figure("a review on a new connection", "us CPU", measured["new"], "kept alive", measured["kept"])]


def _sweep(sample: Sequence[bytes], servers: Mapping[str, Server]) -> dict[str, dict[int, float]]:
    """Requests per second by connections, for the plot."""
    return {
        name: {
            count: round(press(servers[name].port, sample, count, SWEEP_SECONDS).rps)
            for count in CONCURRENCIES
        }
        for name in ("NULL", "ours", "A")
    }


def _at_rate(
    rate: int, sample: Sequence[bytes], servers: Mapping[str, Server], rounds: int
) -> dict[str, list[Answers]]:
    """Open-loop answers of the webhook and of NULL, which shows what client and connection take of it."""
    subjects = {name: partial(_open, servers[name], sample, rate) for name in ("ours", "NULL")}
    return interleave(subjects, max(3, rounds // 2))


def _open(server: Server, sample: Sequence[bytes], rate: int) -> Answers:
    answers = asyncio.run(open_loop(server.port, sample, rate, OPEN_LOOP_SECONDS))
    if answers.failures:
        raise RuntimeError(f"{len(answers.failures)} requests failed: {answers.failures[0]}")
    return answers


def _latencies(rate: int, answers: Mapping[str, Sequence[Answers]]) -> list[Figure]:
    def figure(per_cent: int) -> Figure:
        ours, null = (_milliseconds(answers[name], per_cent) for name in ("ours", "NULL"))
        return Figure(f"{rate} reviews/s, open loop: p{per_cent}", "ms", ours, "NULL", null)

    return [figure(per_cent) for per_cent in (50, 99)]


def _percentiles(answers: Mapping[str, Sequence[Answers]]) -> dict[str, float]:
    """Medians over the rounds, for the plot."""
    shown = {f"p{per_cent}": ("ours", per_cent) for per_cent in (50, 90, 99)} | {"NULL p50": ("NULL", 50)}
    return {
        title: round(median(_milliseconds(answers[name], per_cent)), 3)
        for title, (name, per_cent) in shown.items()
    }


def _milliseconds(rounds: Sequence[Answers], per_cent: int) -> list[float]:
    return [answers.percentile(per_cent) * 1000 for answers in rounds]


def _memory(sample: Sequence[bytes], requests: int, more: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, webhook(Path(folder), "--health-port", "0") as server:
        before = server.cpu_seconds
        time.sleep(REST_SECONDS)
        share = (server.cpu_seconds - before) / REST_SECONDS
        at_start = server.rss_mb
        _send(server, sample, requests)
        after = server.rss_mb
        _send(server, sample, more)
        grown = server.rss_mb - after
    counted = f"{requests // 1000}k requests"
    return [
        Figure("CPU at rest", "% of a core", [100 * share]),
        Figure("RSS at rest", "MB", [at_start]),
        Figure(f"RSS after {counted}", "MB", [after]),
        Figure(f"growth over {more // 1000}k more", "MB", [grown]),
    ]


def _send(server: Server, sample: Sequence[bytes], requests: int) -> None:
    sent = 0
    rate = press(server.port, sample, CONCURRENCY, 1).rps
    while sent < requests:
        sent += press(server.port, sample, CONCURRENCY, max(1, min(20, (requests - sent) / rate))).requests


def _start(body: bytes, starts: int) -> list[Figure]:
    """Seconds from the start of the process to its first good answer."""
    plain = partial(_first_answer, body, "")
    loaded = partial(_first_answer, body, "import kubernetes.client, kubernetes.config, kubernetes.watch\n")
    _first_answer(body, "import kubernetes.client\n")  # what the disk has not read yet is read here
    measured = interleave({"plain": plain, "kubernetes": loaded}, starts)
    name = "start to first good answer"
    seconds = measured["plain"], "with kubernetes imported", measured["kubernetes"]
    return [Figure(name, "s", *seconds)]


def _first_answer(body: bytes, first: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        with bind("127.0.0.1", 0) as free:
            port = free.getsockname()[1]
        arguments = webhook_command(Path(folder), "--port", str(port))[3:]
        code = f"{first}import sys\nfrom cli.main import main\nsys.argv[1:] = {arguments!r}\nmain()"
        start = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", code], stderr=subprocess.DEVNULL, cwd=CHECKOUT
        ) as process:
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
