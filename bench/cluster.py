"""Run with `python -m bench.cluster`: creations of pods on a real API server, with the whole product.

API server, scheduler and controller-manager are real, with webhook and controller of this checkout, and KWOK
in place of kubelets. First, pods of ClearML are created at a fixed rate in a namespace that the webhook
decides on and in one that it leaves out. Then 200 pods are created at once in mode `dra` and in mode
`per-gpu`: as many nodes offer their cards to claims as offer them by indices. All processes share the cores.
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Any

import typer
import yaml

from agent.dra.resource_slice import OfferedCard, devices_of, manifest
from agent.gpu import Gpu
from bench.bodies import FIXTURES
from bench.harness import Bar, Figure, interleave, report
from bench.machine import Watch
from bench.processes import Server
from kube.dra import DRIVER
from kube.names import RESOURCE_SLICES_PATH
from testbed import binaries
from testbed.api import Api, ApiError
from testbed.certificate_files import write_tls
from testbed.cluster import Cluster
from testbed.controller_process import Controller, install_crd, registered_webhook
from testbed.gpu_nodes import GpuNode
from testbed.kubernetes_version import UNDER_TEST
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE, labelled_pod

MODES = ("per-gpu", "dra")
NODES, GPUS, MIB = 50, 4, 81920
AT_ONCE, RATE = 8, 50
POLL_S = 0.1
CLAIMS = "resource.k8s.io/v1"
CREATED: dict[str, Any] = yaml.safe_load((FIXTURES / "manifests" / "clearml-label-only.yaml").read_text())
ADDED, SPEED, CPU = Bar("<=", 5), Bar(">=", 0.9), Bar("<=", 0.1)


Burst = tuple[float, Mapping[str, float]]
"""Pods a second, and seconds of CPU of each process."""


def main(
    *,
    rounds: Annotated[int, typer.Option(help="Rounds of creations, and bursts of each mode.")] = 5,
    pods: Annotated[int, typer.Option(help="Pods of a burst, an eighth of a GPU each.")] = 200,
    created: Annotated[int, typer.Option(help="Pods of a round of creations, 50 a second.")] = 500,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure what the webhook adds to a creation, and bursts until the last pod has a node."""
    if reason := binaries.go_missing():
        raise SystemExit(reason)
    watch = Watch()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        cluster = stack.enter_context(Cluster(binaries.build(typer.echo), folder))
        _fill(cluster)
        tls, options = write_tls(folder / "tls"), ["--claim-templates"]
        controller = stack.enter_context(Controller(cluster.kubeconfig, folder, tls, "bench", more=options))
        controller.until_leading()
        webhook = stack.enter_context(
            registered_webhook(cluster.api, MODES[0], controller, folder, _policies(folder))
        )
        [scheduler] = [each for each in cluster.processes if each.log.stem == "kube-scheduler"]
        pids = {"webhook": webhook.pid, "controller": controller.process.pid, "scheduler": scheduler.pid}
        processes = {name: Server(pid, 0) for name, pid in pids.items()}
        creations = {
            namespace: partial(_creations, cluster.api, namespace, created)
            for namespace in (MODES[0], OWN_NAMESPACE)
        }
        bursts = {mode: partial(_burst, cluster.api, mode, pods, processes) for mode in MODES}
        for mode in MODES:
            _burst(cluster.api, mode, AT_ONCE, processes)
        taken, measured = interleave(creations, rounds), interleave(bursts, rounds)
    figures = [*_added(taken), *_of_bursts(measured, pods)]
    report("cluster", figures, watch, json_file, kubernetes=UNDER_TEST.version)


def _added(taken: Mapping[str, list[list[float]]]) -> list[Figure]:
    def added(percentile: int) -> list[float]:
        called, left_out = ([_percentile(each, percentile) for each in rounds] for rounds in taken.values())
        return [one - other for one, other in zip(called, left_out, strict=True)]

    return [
        Figure(f"added to the p99 of a creation, {RATE} a second", "ms", added(99), bar=ADDED),
        Figure(f"added to the p50 of a creation, {RATE} a second", "ms", added(50)),
    ]


def _percentile(values: Sequence[float], percentile: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percentile - 1]


def _of_bursts(measured: Mapping[str, list[Burst]], pods: int) -> list[Figure]:
    by_index, by_claim = ([speed for speed, _ in measured[mode]] for mode in MODES)
    cpu = [used for _, used in measured["dra"]]
    ours = [1000 * (each["webhook"] + each["controller"]) / pods for each in cpu]
    scheduler = [1000 * each["scheduler"] / pods for each in cpu]
    name = f"{pods} pods at once in mode dra"
    return [
        Figure(f"{name}, until each has a node", "pods/s", by_claim, "mode per-gpu", by_index, SPEED),
        Figure(f"{name}, CPU of ours for a pod", "ms", ours, "scheduler", scheduler, CPU),
    ]


def _fill(cluster: Cluster) -> None:
    """Add namespaces, nodes of both kinds, and the cards that are offered to claims."""
    install_crd(cluster.api)
    for namespace in (*MODES, OWN_NAMESPACE):
        cluster.create_namespace(namespace)
    device_class = {
        "apiVersion": CLAIMS,
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
    }
    cluster.api.call("POST", f"/apis/{CLAIMS}/deviceclasses", device_class)
    gpus = [Gpu(index, f"GPU-{index}", "NVIDIA A100-SXM4-80GB", MIB) for index in range(GPUS)]
    devices = devices_of(OfferedCard(gpu, None) for gpu in gpus)
    for number in range(NODES):
        cluster.api.create(GpuNode(gpus=GPUS).manifest(f"index-{number}"))
        name = f"claim-{number}"
        uid = cluster.api.create(GpuNode(gpus=0).manifest(name))["metadata"]["uid"]
        cluster.api.call("POST", RESOURCE_SLICES_PATH, manifest(name, uid, devices, 1))


def _policies(folder: Path) -> Path:
    """One policy for each mode, in the namespace of its name."""
    policies = folder / "policies"
    policies.mkdir()
    for mode, name in zip(MODES, ("default", "claims"), strict=True):
        scope = "" if name == "default" else f"namespaces: [{mode}], "
        (policies / f"{name}.yaml").write_text(
            f"{{kind: Policy, name: {name}, {scope}resources: {{mode: {mode}}}}}"
        )
    return policies


def _creations(api: Api, namespace: str, count: int) -> list[float]:
    """Milliseconds of each creation of a pod that no scheduler looks at; all are deleted in the end."""
    begun = time.monotonic()

    def create(number: int) -> float:
        pod = copy.deepcopy(CREATED)
        pod["metadata"]["name"], pod["spec"]["schedulerName"] = f"clearml-id-{number:032x}", "nobody"
        time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
        start = time.perf_counter()
        api.create(pod, namespace)
        return 1000 * (time.perf_counter() - start)

    with ThreadPoolExecutor(AT_ONCE) as clients:
        taken = list(clients.map(create, range(count)))
    _clear(api, namespace)
    return taken


def _clear(api: Api, namespace: str) -> None:
    def is_clear() -> bool:
        return not api.list("Pod", namespace) and not api.list("ResourceClaim", namespace, CLAIMS)

    api.delete_all("Pod", namespace)
    eventually(is_clear, "all pods and claims are gone")


def _burst(api: Api, mode: str, pods: int, processes: Mapping[str, Server]) -> Burst:
    """Create pods, wait until each has a node, and delete them with their claims."""
    before, start = {name: each.cpu_seconds for name, each in processes.items()}, time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as clients:
        list(clients.map(lambda number: _create(api, mode, f"pod-{number}"), range(pods)))
    while sum("nodeName" in pod["spec"] for pod in api.list("Pod", mode)) < pods:
        time.sleep(POLL_S)
    bound = time.perf_counter() - start
    cpu = {name: each.cpu_seconds - before[name] for name, each in processes.items()}
    _clear(api, mode)
    return pods / bound, cpu


def _create(api: Api, mode: str, name: str) -> None:
    """Create a pod; in the first burst, no card may be known yet."""
    pod = labelled_pod(name, "0.125", terminationGracePeriodSeconds=0)

    def created() -> bool:
        try:
            api.create(pod, mode)
        except ApiError as error:
            if "offers no card yet" not in str(error):
                raise
            return False
        return True

    eventually(created, f"{name} is created")


if __name__ == "__main__":
    typer.run(main)
