"""Run with `python -m bench.controller_loop`: the longest step of the controller's loop in a large cluster.

The whole controller runs in this process, against an API server in another that makes 10,000 nodes and 80,000
pods up. A step is all that the loop does between two looks at its sockets; it is counted in the thread's CPU
time, so that a busy machine does not lengthen it. The phases: the first list; everything that a new leader
publishes and tells while it is scraped, watched and asked for placements, some of them for pods with as many
terms as may be; and a list that begins again under the same load.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from bench.harness import Bar, Figure, report
from bench.machine import MEASURED_CORE, Watch, pin
from bench.processes import child, child_line
from cluster.endpoint import Endpoint
from cluster.kube_client import ApiServer
from controller.options import ControllerOptions
from controller.process import ControllerProcess
from testbed.certificate_files import write_tls
from testbed.product import POLICIES

STEP = Bar("<=", 25)
"""Milliseconds of CPU."""
MEMORY = Bar("<=", 512)
"""MiB: controller.resources.limits.memory of the chart."""


class Steps:
    """Measures each step of the running loop by being called in each."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._before = time.thread_time()
        self.longest = 0.0
        """Milliseconds of CPU."""
        self._step()

    def take(self) -> float:
        """Give the longest step, and begin again."""
        longest, self.longest = self.longest, 0.0
        return longest

    def _step(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, 1000 * (now - self._before))
        self._before = now
        self._loop.call_soon(self._step)


def main(
    *,
    nodes: Annotated[int, typer.Option(help="Nodes of 8 GPUs.")] = 10_000,
    pods: Annotated[int, typer.Option(help="Bound pods, each with half a GPU.")] = 80_000,
    waiting: Annotated[int, typer.Option(help="Pods without a node.")] = 200,
    seconds: Annotated[float, typer.Option(help="Seconds of load in each phase.")] = 40,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure the longest step of the loop in each phase."""
    pin(MEASURED_CORE)
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        figures = uvloop.run(_measure(write_tls(Path(folder) / "tls"), (nodes, pods, waiting), seconds))
    report("controller-loop", figures, watch, json_file, nodes=nodes, pods=pods, waiting=waiting)


async def _measure(tls: Path, counts: tuple[int, int, int], seconds: float) -> list[Figure]:
    async with (
        child("bench.large_cluster", *map(str, counts)) as cluster,
        child("bench.controller_load", str(tls), str(2 * seconds)) as load,
    ):
        api = ApiServer(Endpoint(f"http://127.0.0.1:{int(await child_line(cluster))}"))
        replica = ControllerProcess(_options(tls), api)
        serving = asyncio.create_task(replica.serve())
        phases = await _phases(replica, api, load, seconds)
        if status := await load.wait():
            raise RuntimeError(f"the load ended with status {status}")
        serving.cancel()
        await asyncio.wait([serving])
        await api.close()
    return [
        *(Figure(f"longest step: {name}", "ms CPU", [longest], bar=STEP) for name, longest in phases.items()),
        Figure("RSS at most", "MiB", [peak_mib()], bar=MEMORY),
    ]


def peak_mib() -> float:
    """Memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _phases(
    replica: ControllerProcess, api: ApiServer, load: asyncio.subprocess.Process, seconds: float
) -> dict[str, float]:
    """The longest step of each phase."""
    phases = {}
    await asyncio.sleep(0.5)  # The servers have started: what a process loads once is not part of a step.
    steps = Steps()
    while not replica.leads:  # noqa: ASYNC110 nothing tells it
        await asyncio.sleep(0.01)
    phases["the first list"] = steps.take()
    if load.stdin is None:
        raise AssertionError("its input is a pipe")
    load.stdin.write("{} {} {}\n".format(*replica.ports, replica.page_port).encode())
    await asyncio.sleep(seconds)
    phases["publishing and telling under load"] = steps.take()
    await api.request("GET", "/bench/forget")
    await asyncio.sleep(seconds)
    phases["another list under load"] = steps.take()
    return phases


def _options(tls: Path) -> ControllerOptions:
    return ControllerOptions(
        port=0,
        health_port=0,
        tls_directory=tls,
        policies=POLICIES,
        namespace="default",
        lease="bench",
        page=True,
        page_port=0,
        stop_delay=0,
        # The API server shares its core with the load: who leads is not what is measured.
        lease_duration=60,
        renew_deadline=50,
    )


if __name__ == "__main__":
    typer.run(main)
