"""Clusters of unlike nodes; pods that request MiB, eighths or GPUs and may name models, zones and taints."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

SLICES = 8
GIB = 1024
MODELS: Mapping[str, int] = {"T4": 16 * GIB, "L4": 24 * GIB, "A100-40": 40 * GIB, "A100-80": 80 * GIB}
"""MiB of one GPU by model."""
ZONES = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class MixedNode:
    """A node with GPUs of one model."""

    name: str
    model: str
    gpus: int = 4
    zone: str = "a"
    is_tainted: bool = False

    @property
    def gpu_mib(self) -> int:
        """MiB of one GPU."""
        return MODELS[self.model]


@dataclass(frozen=True, slots=True)
class MixedPod:
    """A pod that requests `slices` or `mib` of each of `gpus` different GPUs."""

    slices: int = 0
    mib: int = 0
    gpus: int = 1
    model: str = ""
    """The model that it names; empty for any."""
    zone: str = ""
    tolerates: bool = False

    def accepts(self, node: MixedNode) -> bool:
        """Whether the node has enough GPUs, and its model, zone and taint match."""
        return (
            self.gpus <= node.gpus
            and (not self.model or self.model == node.model)
            and (not self.zone or self.zone == node.zone)
            and (self.tolerates or not node.is_tainted)
        )

    def slices_on(self, gpu_mib: int) -> int | None:
        """Slices of each of its GPUs, if these have so many MiB; None if they are too small."""
        slices = -(-self.mib * SLICES // gpu_mib) if self.mib else self.slices
        return slices if slices <= SLICES else None


Mix = Callable[[random.Random], MixedPod]
"""Draws one pod."""


@dataclass(frozen=True, slots=True)
class MixedCluster:
    """The nodes, in the order of their names."""

    nodes: tuple[MixedNode, ...]

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.gpus for node in self.nodes)

    @property
    def mean_mib(self) -> float:
        """MiB of a GPU, on average."""
        return sum(node.gpus * node.gpu_mib for node in self.nodes) / self.gpus

    def requested(self, pod: MixedPod) -> float:
        """What a pod requests, in GPUs: MiB count relative to the average GPU, wherever the pod goes."""
        return pod.gpus * (pod.mib / self.mean_mib if pod.mib else pod.slices / SLICES)

    def drawn(self, mix: Mix, rng: random.Random) -> MixedPod:
        """Draw a pod that some node could hold."""
        while True:
            pod = mix(rng)
            if any(pod.accepts(node) and pod.slices_on(node.gpu_mib) for node in self.nodes):
                return pod


def unlike(seed: int, nodes: int = 40, tainted: float = 0.2) -> MixedCluster:
    """Nodes of four GPUs of four models, in three zones; some have a taint. Every model is there."""
    rng = random.Random(f"cluster {seed}")  # noqa: S311 - a repeatable experiment, no secret
    models = [*MODELS, *rng.choices(list(MODELS), k=nodes - len(MODELS))]
    rng.shuffle(models)
    made = [
        MixedNode(f"n{number:04}", model, 4, rng.choice(ZONES), rng.random() < tainted)
        for number, model in enumerate(models)
    ]
    return MixedCluster(tuple(made))


def equal(nodes: int = 40, gpus: int = 8) -> MixedCluster:
    """Nodes that do not differ."""
    return MixedCluster(tuple([MixedNode(f"n{number:04}", "A100-80", gpus) for number in range(nodes)]))


def sizes(**weights: float) -> Callable[[random.Random], MixedPod]:
    """Draw a size by weight: s3 is three slices, g2 two whole GPUs, p4 half of each of two GPUs."""
    names = list(weights)

    def draw(rng: random.Random) -> MixedPod:
        return _pod_of_size(rng.choices(names, list(weights.values()))[0])

    return draw


@cache
def _pod_of_size(name: str) -> MixedPod:
    kind, number = name[0], int(name[1:])
    if kind == "g":
        return MixedPod(SLICES, gpus=number)
    return MixedPod(number, gpus=2 if kind == "p" else 1)


def mib(*gib: int) -> Mix:
    """Draw one of these numbers of GiB, the small ones more often."""
    weights = [1 / (rank + 2) for rank in range(len(gib))]
    return lambda rng: MixedPod(mib=GIB * rng.choices(gib, weights)[0])


def one_of(*weighted: tuple[float, Mix]) -> Mix:
    """Draw from one of several mixes, by weight."""
    weights = [weight for weight, _ in weighted]
    return lambda rng: rng.choices(weighted, weights)[0][1](rng)


def naming(mix: Mix, models: float = 0.0, zones: float = 0.0, tolerate: float = 0.0) -> Mix:
    """Let such shares of the pods name a model that can hold them or a zone, or tolerate the taint."""

    def draw(rng: random.Random) -> MixedPod:
        pod = mix(rng)
        model = zone = ""
        if rng.random() < models:
            model = rng.choice([name for name, each in MODELS.items() if pod.slices_on(each) is not None])
        if rng.random() < zones:
            zone = rng.choice(ZONES)
        return MixedPod(pod.slices, pod.mib, pod.gpus, model, zone, rng.random() < tolerate)

    return draw


EIGHTHS = sizes(s1=10, s2=20, s3=5, s4=20, s6=5, g1=25, g2=6, g4=3, p4=4, p2=2)
MIB = mib(2, 4, 6, 8, 10, 12, 16, 20, 24, 30, 40, 60)
SMALL_MIB = mib(1, 2, 3, 4, 5, 6, 8)
PHILLY = sizes(g1=70, g2=8, g4=9, g8=6, s4=4, s2=3)
"""Numbers of GPUs about as in Microsoft's Philly trace, and a few shares."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod, when it comes, and how long it stays."""

    name: str
    pod: MixedPod
    at: float = 0.0
    lasts: float = float("inf")
    """In mean lives."""


def filling(cluster: MixedCluster, mix: Mix, rng: random.Random) -> list[Arrival]:
    """Return pods until they request all GPUs."""
    made: list[Arrival] = []
    requested = 0.0
    while requested < cluster.gpus:
        made.append(Arrival(f"p{len(made)}", cluster.drawn(mix, rng)))
        requested += cluster.requested(made[-1].pod)
    return made


def in_order(arrivals: Sequence[Arrival], key: Callable[[MixedPod], float]) -> list[Arrival]:
    """Sort pods that all stay."""
    return sorted(arrivals, key=lambda each: (key(each.pod), each.name))
