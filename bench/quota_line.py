"""Run with `python -m bench.quota_line`: what pods cost the controller while they wait for a quota.

The whole controller runs in this process, against an API server in another: four times a second, a pod
ends, another one begins to wait, and the controller lets one go. Its CPU is compared with that for ten pods.

The checks of the line by themselves are measured too, for pods that are alike, and for pods of a queue
each: authors can write any queue's name. The controller checks at most once in STEP_SECONDS, and only after
a change.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from bench.gated_cluster import ROOM
from bench.harness import Bar, Figure, interleave, report
from bench.large_cluster import NAMESPACE
from bench.machine import MEASURED_CORE, Watch, pin
from bench.processes import child, child_line
from cluster.endpoint import Endpoint
from cluster.kube_client import ApiServer
from controller.options import ControllerOptions
from controller.process import ControllerProcess
from controller.quota_gates.loop import STEP_SECONDS
from ledger.ledger import Ledger
from ledger.placement_request import Quota
from modes.facts import PodFact, QuotaWait
from modes.units import Gpu
from testbed.controller_process import write_tls

FEW, CHECKS = 10, 50
QUOTA = Quota("namespace", "team", max_pods=ROOM)
MOST_PERCENT = 5
LOADED_SECONDS = 5.0
"""After the first pod went: the controller loads nothing more then."""
POLICY = f"""
kind: Policy
name: default
quotas: {{namespaces: {{{NAMESPACE}: {{maxPods: {ROOM}}}}}, whenOverQuota: wait}}
"""


def main(
    *,
    pods: Annotated[int, typer.Option(help="Pods that wait.")] = 5_000,
    rounds: Annotated[int, typer.Option(help="Rounds.")] = 5,
    seconds: Annotated[float, typer.Option(help="Seconds of each measurement of the controller.")] = 20,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure the part of a core that waiting pods take."""
    pin(MEASURED_CORE)
    watch = Watch()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "policies").mkdir()
        (folder / "policies" / "default.yaml").write_text(POLICY)
        write_tls(folder / "tls")
        figures = [*_figures_of_controller(folder, pods, rounds, seconds), *_figures_of_line(pods, rounds)]
    report("quota-line", figures, watch, json_file, pods=pods)


def _figures_of_controller(folder: Path, pods: int, rounds: int, seconds: float) -> list[Figure]:
    subjects = {str(count): partial(_controller_percent, folder, count, seconds) for count in (FEW, pods)}
    measured = interleave(subjects, rounds)
    few, many = measured[str(FEW)], measured[str(pods)]
    return [
        Figure(
            f"controller, {pods} pods wait, less {FEW} pods",
            "% of a core",
            [one - other for one, other in zip(many, few, strict=True)],
            bar=Bar("<=", MOST_PERCENT),
        ),
        Figure(f"controller, {pods} pods wait", "% of a core", many, f"{FEW} pods", few),
    ]


def _controller_percent(folder: Path, waiting: int, seconds: float) -> float:
    return uvloop.run(_measure_controller(folder, waiting, seconds))


async def _measure_controller(folder: Path, waiting: int, seconds: float) -> float:
    async with child("bench.gated_cluster", str(waiting)) as cluster:
        api = ApiServer(Endpoint(f"http://127.0.0.1:{int(await child_line(cluster))}"))
        replica = ControllerProcess(_options(folder), api)
        serving = asyncio.create_task(replica.serve())
        while not replica.leads:  # noqa: ASYNC110 nothing tells it
            await asyncio.sleep(0.01)
        await _until_more_are_gone(api)
        await asyncio.sleep(LOADED_SECONDS)
        wall, start = time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        await _until_more_are_gone(api)
        used, wall = time.process_time() - start, time.monotonic() - wall
        serving.cancel()
        await asyncio.wait([serving])
        await api.close()
    return 100 * used / wall


async def _until_more_are_gone(api: ApiServer) -> None:
    """Wait until the controller has let a pod go."""
    before = gone = int(await api.request("GET", "/bench/gone"))
    while gone == before:
        await asyncio.sleep(0.25)
        gone = int(await api.request("GET", "/bench/gone"))


def _options(folder: Path) -> ControllerOptions:
    return ControllerOptions(
        port=0,
        health_port=0,
        tls_directory=folder / "tls",
        policies=folder / "policies",
        namespace="default",
        lease="bench",
        stop_delay=0,
        # Who leads is not what is measured.
        lease_duration=60,
        renew_deadline=50,
    )


def _figures_of_line(pods: int, rounds: int) -> list[Figure]:
    subjects = {
        f"{count} {queues}": partial(_line_percent, _Line(count, queues=queues))
        for count in (FEW, pods)
        for queues in (False, True)
    }
    measured = interleave(subjects, rounds)
    return [
        Figure(
            f"checks of the line, {pods} pods, {name}",
            "% of a core",
            measured[f"{pods} {queues}"],
            f"{FEW} pods",
            measured[f"{FEW} {queues}"],
        )
        for queues, name in ((False, "all alike"), (True, "each of its own queue"))
    ]


class _Line:
    """A ledger in which the quota is full, and pods wait."""

    def __init__(self, count: int, *, queues: bool) -> None:
        self._queues = queues
        self._last = self._first = 0
        self._ledger = Ledger()
        for _ in range(ROOM + count):
            self._add()
        self.check()

    def change(self) -> None:
        """A pod that runs ends, and another one begins to wait."""
        self._ledger.remove_pod(self._pod(self._first).key)
        self._first += 1
        self._add()

    def check(self) -> int:
        """Let pods go as far as the quota allows; give their number."""
        gone = 0
        for pod in self._ledger.line.due(lambda _namespace, _queues: (QUOTA,), "policies"):
            if pod is not None:
                self._ledger.set_pod(self._pod(int(pod.name), waits=False))
                gone += 1
        return gone

    def _add(self) -> None:
        self._ledger.set_pod(self._pod(self._last))
        self._last += 1

    def _pod(self, number: int, *, waits: bool = True) -> PodFact:
        name = f"{number:09}"
        return PodFact(
            namespace=QUOTA.name,
            name=name,
            takes=((Gpu(0), 4),),
            queues=(f"queue-{name}",) if self._queues else (),
            quota_wait=QuotaWait(name, since=name) if waits else None,
        )


def _line_percent(line: _Line) -> float:
    start = time.process_time()
    for _ in range(CHECKS):
        line.change()
        if line.check() != 1:
            raise AssertionError("one pod goes for each that ends")
    return 100 * (time.process_time() - start) / CHECKS / STEP_SECONDS


if __name__ == "__main__":
    typer.run(main)
