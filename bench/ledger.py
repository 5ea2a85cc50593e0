"""Run with `python -m bench.ledger`: a rebuild from list pages, read as the controller reads them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.harness import Bar, Figure, interleave, report
from bench.machine import MEASURED_CORE, Watch, pin
from controller.watch import resources
from ledger.ledger import Ledger
from ledger.placement_request import PlacementRequest, RequestedShare
from modes.facts import NodeFact, PodFact
from modes.fraction import Fraction
from modes.resource_names import ResourceNames

NODES, PODS, PAGE = 10_000, 100_000, 500
NAMES = ResourceNames()
CHILD = """
from pathlib import Path
from bench.ledger import rebuild
ledger, seconds = rebuild()
print(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line).split()[1])
"""


def main(
    rounds: Annotated[int, typer.Option(help="Rounds.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure CPU of a rebuild against json.loads, and the memory of the ledger."""
    pin(MEASURED_CORE)
    watch = Watch()
    measured = interleave({"ours": lambda: rebuild()[1], "json.loads": _json_loads}, rounds)
    ours, loads = measured["ours"], measured["json.loads"]
    child = subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True, text=True)
    figures = [
        Figure(
            "rebuild from 10,000 nodes and 100,000 pods", "s CPU", ours, "json.loads", loads, Bar("<=", 1.0)
        ),
        Figure("memory of a process with that ledger", "MB", [int(child.stdout) / 1024], bar=Bar("<=", 400)),
    ]
    size = sum(map(len, pages("Node", NODES))) + sum(map(len, pages("Pod", PODS)))
    report("ledger", figures, watch, json_file, list_mb=round(size / 1e6))


def rebuild() -> tuple[Ledger, float]:
    """A ledger from all pages, ready to place, and the CPU seconds that it took; making pages not counted."""
    nodes: list[NodeFact] = []
    pods: list[PodFact] = []
    read_nodes = resources.nodes(NAMES).reader.read_list
    read_pods = resources.pods(NAMES).reader.read_list
    seconds = 0.0
    for page in pages("Node", NODES):
        start = time.process_time()
        nodes += [node.fact for node in read_nodes(page)[0]]
        seconds += time.process_time() - start
    for page in pages("Pod", PODS):
        start = time.process_time()
        pods += [pod.fact for pod in read_pods(page)[0]]
        seconds += time.process_time() - start
    assert (len(nodes), len(pods)) == (NODES, PODS)
    start = time.process_time()
    ledger = Ledger()
    ledger.replace(nodes, pods)
    ledger.place(PlacementRequest(RequestedShare(Fraction(4, 8))), 0.0)
    return ledger, seconds + time.process_time() - start


def pages(kind: str, count: int) -> Iterator[bytes]:
    """List pages as an API server sends them, compact JSON."""
    make = node_object if kind == "Node" else pod_object
    for first in range(0, count, PAGE):
        items = [make(number) for number in range(first, first + PAGE)]
        metadata = {"resourceVersion": "1", "continue": "more"}
        listed = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": items}
        yield json.dumps(listed, separators=(",", ":")).encode()


def _json_loads() -> float:
    seconds = 0.0
    for kind, count in (("Node", NODES), ("Pod", PODS)):
        for page in pages(kind, count):
            start = time.process_time()
            json.loads(page)
            seconds += time.process_time() - start
    return seconds


def node_object(number: int) -> dict[str, Any]:
    """One of the nodes as the API server writes it."""
    name = f"gpu-{number:05}"
    labels = {f"feature.node.kubernetes.io/cpu-{bit}": "true" for bit in range(20)}
    labels |= {"kubernetes.io/hostname": name, "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "8"}
    amounts = {"cpu": "96", "memory": "791Gi", "pods": "110"} | {f"nvidia.com/gpu-{i}": "8" for i in range(8)}
    conditions = [
        {"type": kind, "status": "False", "reason": "KubeletHas"}
        for kind in ("MemoryPressure", "PIDPressure")
    ]
    images = [
        {"names": [f"registry.example/image-{i}@sha256:{i:064}"], "sizeBytes": 10**9} for i in range(20)
    ]
    return {
        "metadata": {
            "name": name,
            "uid": f"{number:032x}",
            "labels": labels,
            "annotations": {"note": "x" * 200},
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"example://{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [*conditions, {"type": "Ready", "status": "True"}],
            "images": images,
        },
    }


def pod_object(number: int) -> dict[str, Any]:
    """One of the pods, bound to a node."""
    gpu = f"nvidia.com/gpu-{number // NODES % 8}"
    asked = {"cpu": f"{500 + number % 7 * 250}m", "memory": "4Gi", gpu: "4"}
    env = [{"name": f"VARIABLE_{i}", "value": f"value of the variable {i}"} for i in range(12)]
    mounts = [{"name": f"volume-{i}", "mountPath": f"/mnt/volume-{i}", "readOnly": True} for i in range(4)]
    container = {
        "name": f"clearml-id-{number:032x}",
        "image": "nvidia/cuda:12.3.1-runtime-ubuntu22.04",
        "command": ["/bin/sh", "-c"],
        "args": ["echo " + "x" * 600],
        "env": env,
        "resources": {"limits": asked, "requests": asked},
        "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    managed = {
        "manager": "kubectl",
        "operation": "Update",
        "fieldsV1": {f"f:{i}": {"f:x": {}} for i in range(20)},
    }
    return {
        "metadata": {
            "name": f"clearml-id-{number:032x}",
            "namespace": f"team-{number % 40}",
            "uid": f"{number:032x}",
            "labels": {
                "clearml-injector/fraction": "0.500",
                "clearml-agent-queue-name": f"queue-{number % 9}",
            },
            "annotations": {"clearml-injector/reservation": f"{number:032x}", "clearml-injector/slices": "4"},
            "managedFields": [managed],
        },
        "spec": {
            "nodeName": f"gpu-{number % NODES:05}",
            "containers": [container],
            "volumes": [{"name": f"volume-{i}", "emptyDir": {}} for i in range(4)],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "PodScheduled")
            ],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "image": "nvidia/cuda"}],
        },
    }


if __name__ == "__main__":
    typer.run(main)
