"""Nodes and pods of a trace in the format of Alibaba's openb (cluster-trace-gpu-v2023), or made up."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass, replace
from pathlib import Path

GPU = 1000
"""Milli-GPU of one GPU."""
EIGHTH = 125
_WHOLE_FROM = 875


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One node."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class TracePod:
    """One pod: `gpus` GPUs of `gpu_milli` each, or none."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...] = ()
    """GPU models that the pod names, sorted; empty where any will do."""

    @property
    def total(self) -> int:
        """Milli-GPU in all."""
        return self.gpus * self.gpu_milli


@dataclass(frozen=True, slots=True)
class Trace:
    """A cluster and what its users asked for."""

    name: str
    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]

    @property
    def capacity(self) -> int:
        """Milli-GPU of all nodes."""
        return GPU * sum(node.gpus for node in self.nodes)

    def in_eighths(self) -> Trace:
        """The same pods with shares rounded up to eighths; over 875 milli is a whole GPU."""
        return replace(self, pods=tuple(replace(pod, gpu_milli=_eighths(pod.gpu_milli)) for pod in self.pods))

    def arrivals(self, seed: int, load: float) -> list[TracePod]:
        """Pods in a random order, then drawn again until the next would pass `load` times the capacity."""
        rng = random.Random(seed)  # noqa: S311 - a repeatable experiment, no secret
        pods = list(self.pods)
        rng.shuffle(pods)
        arrived: list[TracePod] = []
        total = position = 0
        while True:
            pod = pods[position] if position < len(pods) else rng.choice(self.pods)
            if total + pod.total > load * self.capacity:
                return arrived
            arrived.append(pod)
            total += pod.total
            position += 1

    def node_order(self, seed: int) -> list[TraceNode]:
        """Nodes in a random order: ties go to the first."""
        nodes = list(self.nodes)
        random.Random(seed + 1_000_000).shuffle(nodes)  # noqa: S311 - a repeatable experiment, no secret
        return nodes


def load(folder: Path) -> Trace:
    """Read a folder with `openb_node_list_gpu_node.csv` and `openb_pod_list_default.csv`."""
    nodes = tuple(
        TraceNode(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(folder / "openb_node_list_gpu_node.csv")
        if int(row["gpu"])
    )
    return Trace("default", nodes, _pods(folder / "openb_pod_list_default.csv"))


def synthetic(nodes: int = 200, pods: int = 1333, seed: int = 7) -> Trace:
    """A small trace of openb's shape: mostly single GPUs and shares, a few pods of many GPUs.

    Of fewer nodes one GPU would be more of the whole than what good policies differ by.
    """
    rng = random.Random(seed)  # noqa: S311 - a repeatable experiment, no secret
    shapes = [(96000, 393216, 8), (104000, 524288, 2), (32000, 131072, 4), (16000, 122880, 2)]
    made = tuple(TraceNode(f"node-{i:04}", *rng.choices(shapes, (5, 4, 1, 1))[0]) for i in range(nodes))
    sizes = [(0, 0), (1, 1000), (1, 810), (1, 470), (1, 320), (1, 650), (1, 230), (8, 1000), (2, 1000)]
    drawn = rng.choices(sizes, (13, 48, 13, 9, 4, 3, 2, 1, 1), k=pods)
    return Trace("synthetic", made, tuple(_pod_of(rng, gpus, milli) for gpus, milli in drawn))


def _pod_of(rng: random.Random, gpus: int, gpu_milli: int) -> TracePod:
    cpu = rng.choice((2000, 4000, 6000, 8000, 12000, 16000)) * max(1, gpus)
    return TracePod(cpu, cpu * 2, gpus, gpu_milli)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def _pods(path: Path) -> tuple[TracePod, ...]:
    return tuple(
        TracePod(
            int(row["cpu_milli"]),
            int(row["memory_mib"]),
            int(row["num_gpu"]),
            int(row["gpu_milli"]),
            model_names(row.get("gpu_spec", "")),
        )
        for row in _rows(path)
    )


def model_names(spec: str) -> tuple[str, ...]:
    """Read openb's column `gpu_spec`: models with bars between them, sorted; none where any will do."""
    return tuple(sorted(set(spec.split("|")))) if spec else ()


def _eighths(gpu_milli: int) -> int:
    return GPU if gpu_milli > _WHOLE_FROM else -(-gpu_milli // EIGHTH) * EIGHTH
