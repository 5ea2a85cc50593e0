"""Run with `python -m bench.cluster`: the controller on a real API server with KWOK's nodes and pods.

Nodes of 8 GPUs and bound pods are made first. Then a controller starts, is left alone for a while, and is
asked for placements while pods are made where it says and as many are deleted. Nothing here has a reference:
these are figures of one machine on which API server, etcd, KWOK and the controller share the cores.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Any

import typer

from bench.harness import Figure, report
from bench.machine import Watch
from bench.processes import Server
from kube.names import GPU_LEDGERS_PATH
from testbed import binaries
from testbed.api import Api
from testbed.cluster import Cluster
from testbed.controller_process import Controller, install_crd, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.kubernetes_version import UNDER_TEST

NAMESPACE = "bench"
GPUS_PER_NODE, SLICES_PER_GPU = 8, 8
AT_ONCE = 8
SLICES = 4
REAL_LEASE = ()
POLL_S = 0.02


def main(  # noqa: PLR0913 each is an option of the command
    *,
    nodes: Annotated[int, typer.Option(help="Nodes of 8 GPUs.")] = 1000,
    pods: Annotated[int, typer.Option(help="Bound pods, each with half a GPU.")] = 10_000,
    idle: Annotated[float, typer.Option(help="Seconds to watch the controller do nothing.")] = 30,
    seconds: Annotated[float, typer.Option(help="Seconds of creating pods.")] = 60,
    rate: Annotated[float, typer.Option(help="Pods created each second.")] = 50,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure start, idling, and placements while pods are created."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        cluster = stack.enter_context(Cluster(built(), folder))
        made = _timed(lambda: _fill(cluster, nodes, pods))
        typer.echo(f"{nodes} nodes and {pods} pods made in {made:.0f} s")
        figures = _measure(cluster, folder, nodes, Load(pods, seconds, rate, idle))
    report(
        "cluster",
        figures,
        watch,
        json_file,
        nodes=nodes,
        pods=pods,
        rate=rate,
        kubernetes=UNDER_TEST.version,
    )


class Load:
    """What is done to the controller once it is ready."""

    def __init__(self, pods: int, seconds: float, rate: float, idle: float) -> None:
        self.pods = pods
        self.seconds = seconds
        self.rate = rate
        self.idle = idle
        self.latencies: list[float] = []
        """Milliseconds of each placement, connection kept."""
        self.late = 0.0
        """Seconds that the creation of pods lagged behind its rate in the end."""

    def run(self, api: Api, controller: Controller) -> None:
        """Ask, create where the answer says, delete the oldest; each at its moment."""
        count = int(self.seconds * self.rate)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            start = time.perf_counter()
            for number in range(count):
                time.sleep(max(0.0, start + number / self.rate - time.perf_counter()))
                placement = self._place(controller, number)
                pool.submit(api.create, _pod(f"new-{number}", **placement), NAMESPACE)
                pool.submit(api.delete, "Pod", f"pod-{number}", NAMESPACE)
            self.late = max(0.0, time.perf_counter() - start - self.seconds)

    def _place(self, controller: Controller, number: int) -> dict[str, Any]:
        reservation = f"uid-{number}"
        share = {"fraction": {"slices": SLICES, "slices_per_gpu": SLICES_PER_GPU}, "cpu_milli": 100}
        ask = {"share": share, "accounting": {"namespace": NAMESPACE, "reservation": reservation}}
        start = time.perf_counter()
        answer = controller.place(ask).raise_for_status().json()
        self.latencies.append(1000 * (time.perf_counter() - start))
        placement = answer["answers"][0]["placement"]
        return {"node": placement["node"], "index": placement["indices"][0], "reservation": reservation}


def _measure(cluster: Cluster, folder: Path, nodes: int, load: Load) -> list[Figure]:
    install_crd(cluster.api)
    started = time.monotonic()
    controller = Controller(cluster.kubeconfig, folder, write_tls(folder / "tls"), "bench", more=REAL_LEASE)
    ready = time.monotonic() - started
    try:
        _until(lambda: _published(cluster.api) == nodes)
        published = time.monotonic() - started
        process = Server(controller.process.pid, controller.ports[0])
        [idle] = at_rest([process], load.idle)
        rss = process.rss_mb
        [busy] = _cpu_shares([process], lambda: load.run(cluster.api, controller))
        _until(lambda: "fraction_injector_reservations 0.0" in controller.plain("/metrics"))
        grown = process.rss_mb
    finally:
        controller.stop()
    cuts = quantiles(load.latencies, n=100)
    note = f"{len(load.latencies)} placements one by one over one mTLS connection; late by {load.late:.1f} s"
    return [
        Figure("process start to a whole ledger", "s", [ready]),
        Figure("process start to every GpuLedger written", "s", [published]),
        Figure("CPU while nothing happens", "% of a core", [100 * idle]),
        Figure("RSS while nothing happens", "MB", [rss]),
        Figure("placement p50 while pods come and go", "ms", [cuts[49]], note=note),
        Figure("placement p99 while pods come and go", "ms", [cuts[98]]),
        Figure("CPU while pods come and go", "% of a core", [100 * busy]),
        Figure("RSS after that", "MB", [grown]),
    ]


def _fill(cluster: Cluster, nodes: int, pods: int) -> None:
    cluster.create_namespace(NAMESPACE)
    node = GpuNode(gpus=GPUS_PER_NODE)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda number: cluster.api.create(node.manifest(f"node-{number}")), range(nodes)))

        def make(number: int) -> None:
            pod = _pod(f"pod-{number}", f"node-{number % nodes}", number // nodes % GPUS_PER_NODE)
            cluster.api.create(pod, NAMESPACE)

        list(pool.map(make, range(pods)))


def _pod(name: str, node: str, index: int, reservation: str | None = None) -> dict[str, Any]:
    """A pod as the webhook leaves it, bound already: the scheduler is not what is measured."""
    amounts = {f"nvidia.com/gpu-{index}": str(SLICES), "cpu": "100m"}
    notes = {"clearml-injector/injected": "default@bench", "clearml-injector/slices": str(SLICES)}
    if reservation is not None:
        notes["clearml-injector/reservation"] = reservation
    container = {"name": "task", "image": "example.com/task:1", "resources": {"limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"clearml-injector/fraction": "0.500"},
            "annotations": {**notes, "clearml-injector/gpu-index": str(index)},
        },
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def _published(api: Api) -> int:
    """GpuLedgers with a status."""
    return sum("status" in found for found in api.call("GET", GPU_LEDGERS_PATH)["items"])


def built() -> Path:
    """Folder of the control plane's binaries, built if need be.

    Raises:
        SystemExit: nothing can be built here; the text says why.
    """
    if reason := binaries.go_missing():
        raise SystemExit(reason)
    return binaries.build(typer.echo)


def at_rest(processes: Sequence[Server], seconds: float) -> list[float]:
    """Cores that each process keeps busy while nothing is asked of it."""
    return _cpu_shares(processes, lambda: time.sleep(seconds))


def _cpu_shares(processes: Sequence[Server], work: Callable[[], None]) -> list[float]:
    """Cores that each process keeps busy during some work."""
    before, wall = [process.cpu_seconds for process in processes], time.monotonic()
    work()
    taken = time.monotonic() - wall
    return [(process.cpu_seconds - cpu) / taken for process, cpu in zip(processes, before, strict=True)]


def _until(check: Callable[[], bool]) -> None:
    while not check():
        time.sleep(POLL_S)


def _timed(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


if __name__ == "__main__":
    typer.run(main)
