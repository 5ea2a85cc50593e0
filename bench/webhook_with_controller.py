"""Run with `python -m bench.webhook_with_controller`: a webhook that asks a controller, and one without.

The webhook has one core. The controller, with 1,000 nodes of 8 GPUs in its ledger, has the other one, which
it shares with the load. Every review is decided by the controller: those placed without it are counted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bench import bodies
from bench.client import response
from bench.harness import Bar, Figure, interleave, report
from bench.load import Load, press, tool
from bench.machine import LOADING_CORE, Watch, pin
from bench.processes import CHECKOUT, Server, asking_webhook, metrics, serving, total
from testbed.controller_process import write_tls

CONCURRENCY = (16, 64)


def main(
    *,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.")] = 5,
    seconds: Annotated[float, typer.Option(help="Seconds of load for each server in a round.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure throughput with and without a controller to ask."""
    pin(LOADING_CORE)
    watch = Watch()
    sample, figures = bodies.clearml(), []
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        tls = write_tls(Path(folder) / "tls")
        controller = stack.enter_context(serving_controller(tls))
        asking = stack.enter_context(asking_webhook(tls, f"https://localhost:{controller.port}"))
        servers = {"asking": asking, "at once": stack.enter_context(serving("ours"))}
        for server in servers.values():
            assert response(server.port, sample[0])["patch"]
        for connections in CONCURRENCY:
            figures += _throughput(servers, connections, sample, rounds, seconds)
        figures.append(
            Figure("placed without the controller", "", [placed_alone(asking, tls)], bar=Bar("<=", 0))
        )
    report("placing", figures, watch, json_file, load=tool())


def _throughput(
    servers: dict[str, Server], connections: int, sample: list[bytes], rounds: int, seconds: float
) -> list[Figure]:
    subjects = {
        name: partial(press, server.port, sample, connections, seconds) for name, server in servers.items()
    }
    loads: dict[str, list[Load]] = interleave(subjects, rounds)
    rps = {name: [load.rps for load in measured] for name, measured in loads.items()}
    p99 = {name: [load.p99_ms for load in measured] for name, measured in loads.items()}
    bar = Bar(">=", 0.35) if connections == max(CONCURRENCY) else None
    return [
        Figure(f"c={connections}: asking a controller", "rps", rps["asking"], "at once", rps["at once"], bar),
        Figure(f"c={connections}: p99", "ms", p99["asking"], "at once", p99["at once"]),
    ]


def placed_alone(server: Server, tls: Path) -> float:
    """Placements that a webhook made without its controller, since its start."""
    return total(metrics(server, tls), "fraction_injector_degraded_placements_total")


@contextmanager
def serving_controller(tls: Path) -> Iterator[Server]:
    """Run bench/controller_server.py, on the core that loads."""
    command = [sys.executable, "-m", "bench.controller_server", str(tls)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT) as process:
        try:
            yield Server(process.pid, int(process.stdout.readline() if process.stdout else 0))
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    typer.run(main)
