"""Nodes and pods of a trace in the format of Alibaba's openb (cluster-trace-gpu-v2023), or made up."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
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

    def mixes(self) -> list[Trace]:
        """Mixes of the same pods that openb publishes beside its default: drawn again here, always alike."""
        rng = random.Random(self.name)  # noqa: S311 - a repeatable experiment, no secret
        return [
            replace(self, name="gpuspec33 derived", pods=self._naming_models(rng, _NAMING)),
            replace(self, name="multigpu50 derived", pods=(*self.pods, *self._more_of_many_gpus(rng))),
            replace(self, name="cpu250 derived", pods=(*self.pods, *self._more_without_gpus(rng, 7 / 6))),
            replace(self, name="cpu300 derived", pods=(*self.pods, *self._more_without_gpus(rng, 9 / 5))),
            replace(self, name="gpuspec20 derived", pods=self._naming_models(rng, _FEWER_NAMING)),
        ]

    def _naming_models(self, rng: random.Random, share: float) -> tuple[TracePod, ...]:
        """The pods, of which such a share of those with GPUs names models."""
        models = [_drawn_models(rng, share) if pod.gpus else () for pod in self.pods]
        return tuple([replace(pod, models=named) for pod, named in zip(self.pods, models, strict=True)])

    def _more_of_many_gpus(self, rng: random.Random) -> Iterator[TracePod]:
        """Pods of two GPUs and more, until they ask for half of all GPUs."""
        many = [pod for pod in self.pods if pod.gpus > 1]
        asked = sum(pod.total for pod in many)
        others = sum(pod.total for pod in self.pods) - asked
        while many and asked < others:
            pod = rng.choice(many)
            asked += pod.total
            yield pod

    def _more_without_gpus(self, rng: random.Random, times: float) -> Iterator[TracePod]:
        """Pods without GPUs, so many times as many more as there are."""
        without = [pod for pod in self.pods if not pod.gpus]
        return (rng.choice(without) for _ in range(int(len(without) * times)))

    def node_order(self, seed: int) -> list[TraceNode]:
        """Nodes in a random order: ties go to the first."""
        nodes = list(self.nodes)
        random.Random(seed + 1_000_000).shuffle(nodes)  # noqa: S311 - a repeatable experiment, no secret
        return nodes


_NAMING, _FEWER_NAMING = 0.338, 0.2
_NAMED = {
    ("T4",): 1291,
    ("G2",): 331,
    ("P100",): 279,
    ("V100M16", "V100M32"): 163,
    ("P100", "V100M16", "V100M32"): 136,
    ("G3",): 86,
    ("V100M32",): 20,
}
"""Pods of openb's gpuspec33 that name these models; of all pods with GPUs a share above names any."""


def _drawn_models(rng: random.Random, share: float) -> tuple[str, ...]:
    return rng.choices(list(_NAMED), list(_NAMED.values()))[0] if rng.random() < share else ()


def load(folder: Path) -> list[Trace]:
    """Read a folder with one `*node_list*.csv` and any number of `*pod_list*.csv`.

    Raises:
        FileNotFoundError: one of them is missing.
    """
    node_lists, pod_lists = sorted(folder.glob("*node_list*.csv")), sorted(folder.glob("*pod_list*.csv"))
    if not node_lists or not pod_lists:
        raise FileNotFoundError(f"{folder} has no *node_list*.csv or no *pod_list*.csv")
    nodes = tuple(
        TraceNode(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(node_lists[0])
        if int(row["gpu"])
    )
    return [Trace(path.stem.partition("pod_list_")[2], nodes, _pods(path)) for path in pod_lists]


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
            _models(row.get("gpu_spec") or ""),
        )
        for row in _rows(path)
    )


def _models(spec: str) -> tuple[str, ...]:
    return tuple(sorted(set(spec.split("|")))) if spec else ()


def _eighths(gpu_milli: int) -> int:
    return GPU if gpu_milli > _WHOLE_FROM else -(-gpu_milli // EIGHTH) * EIGHTH
