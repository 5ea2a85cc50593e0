"""Run with `python -m bench.dra`: 200 pods at once in mode `dra`, beside 200 in mode `per-gpu`.

A real API server, scheduler and controller-manager, with webhook and controller of this checkout, and KWOK in
place of kubelets. As many nodes offer their cards by indices as offer them to claims. Each round creates the
pods of one mode, waits until all have a node, and deletes them; the modes take turns. All processes share the
cores, so only the ratio means anything. What each mode waits for when cards are full is in
`bench.packing.waiting`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from agent.dra.resource_slice import OfferedCard, devices_of, manifest
from agent.gpu import Gpu
from bench.cluster import AT_ONCE, built
from bench.harness import Figure, interleave, report
from bench.machine import Watch
from kube.dra import DRIVER
from kube.names import RESOURCE_SLICES_PATH
from testbed.api import Api, ApiError
from testbed.cluster import Cluster
from testbed.controller_process import Controller, install_crd, registered_webhook, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.kubernetes_version import UNDER_TEST
from testbed.process import eventually
from testbed.registration import labelled_pod

MODES = ("per-gpu", "dra")
NODES, GPUS, MIB = 10, 4, 81920
POLL_S = 0.1
CLAIMS = "resource.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Speed:
    """Of one burst, in pods a second."""

    created: float
    bound: float


def main(
    *,
    rounds: Annotated[int, typer.Option(help="Bursts of each mode.")] = 5,
    pods: Annotated[int, typer.Option(help="Pods of a burst, an eighth of a GPU each; 320 have room.")] = 200,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure from the first creation until the last pod has a node."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        cluster = stack.enter_context(Cluster(built(), folder))
        _fill(cluster)
        tls, options = write_tls(folder / "tls"), ["--claim-templates"]
        controller = stack.enter_context(Controller(cluster.kubeconfig, folder, tls, "bench", more=options))
        controller.until_leading()
        policies = _policies(folder)
        stack.enter_context(registered_webhook(cluster.api, MODES[0], controller, folder, policies))
        for mode in MODES:
            _burst(cluster.api, mode, AT_ONCE)
        bursts = {mode: lambda mode=mode: _burst(cluster.api, mode, pods) for mode in MODES}
        measured = interleave(bursts, rounds)
    report("dra", _figures(measured, pods), watch, json_file, kubernetes=UNDER_TEST.version)


def _figures(measured: Mapping[str, list[Speed]], pods: int) -> list[Figure]:
    by_index, by_claim = (measured[mode] for mode in MODES)
    return [
        Figure(
            f"{pods} pods at once, until each has a node",
            "pods/s in mode dra",
            [each.bound for each in by_claim],
            "mode per-gpu",
            [each.bound for each in by_index],
        ),
        Figure(
            f"{pods} pods at once, until each is created",
            "pods/s in mode dra",
            [each.created for each in by_claim],
            "mode per-gpu",
            [each.created for each in by_index],
        ),
    ]


def _fill(cluster: Cluster) -> None:
    """Add namespaces, nodes of both kinds, and the cards that are offered to claims."""
    install_crd(cluster.api)
    for mode in MODES:
        cluster.create_namespace(mode)
    device_class = {
        "apiVersion": CLAIMS,
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
    }
    cluster.api.call("POST", f"/apis/{CLAIMS}/deviceclasses", device_class)
    gpus = [Gpu(index, f"GPU-{index}", "NVIDIA A100-SXM4-80GB", MIB) for index in range(GPUS)]
    devices = devices_of(OfferedCard(gpu, None, None) for gpu in gpus)
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


def _burst(api: Api, mode: str, pods: int) -> Speed:
    """Create pods, wait until each has a node, and delete them with their claims."""
    start = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as clients:
        list(clients.map(lambda number: _create(api, mode, f"pod-{number}"), range(pods)))
    created = time.perf_counter() - start
    while sum("nodeName" in pod["spec"] for pod in api.list("Pod", mode)) < pods:
        time.sleep(POLL_S)
    bound = time.perf_counter() - start
    api.delete_all("Pod", mode)
    eventually(lambda: not api.list("Pod", mode) and not api.list("ResourceClaim", mode, CLAIMS), "all gone")
    return Speed(pods / created, pods / bound)


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
