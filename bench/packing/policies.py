"""The product's ledger on the nodes of a trace, and what it is asked for the trace's pods."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from bench.packing.trace import EIGHTH, GPU, TraceNode, TracePod
from kube.names import GPU_MEMORY_LABEL
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.ledger import Ledger
from ledger.placement.prices import CpuHistory, unusable_slices
from ledger.placement_request import Accounting, Demands, Placement, PlacementRequest, RequestedShare
from ledger.reservations import LIFETIME_SECONDS
from modes.facts import NodeFact, PodFact
from modes.fraction import Fraction

MIB = 2**20
_CPU_PRIOR = 148, 1000
"""Slices and milli-CPU of each that are counted before pods come, as the ledger does."""
MODEL_LABEL, HOST_LABEL = "nvidia.com/gpu.product", "kubernetes.io/hostname"


class Ours:
    """The product's ledger, asked as the webhook asks it, its reservations turned holders at once.

    Pods without GPUs are not the product's to place. Here they go where they strand the
    fewest free slices, as the product's score counts them.
    """

    def __init__(self, nodes: Iterable[TraceNode]) -> None:
        facts = [node_fact(order, node) for order, node in enumerate(nodes)]
        self.ledger = Ledger(most_reservations=sys.maxsize)
        self.ledger.replace(facts, [])
        self._left = {
            fact.name: _Left(fact.cpu_milli, fact.memory_bytes, 8 * len(fact.gpus)) for fact in facts
        }
        self._cpu = CpuHistory()
        self._cpu.learn(*_CPU_PRIOR)
        self._prices, self._priced_at = self._cpu.prices(), 0
        self._pods = 0

    def place(self, pod: TracePod) -> bool:
        """Place a pod for good; False if no node has room."""
        self._pods += 1
        return self._place_with_gpu(pod) if pod.gpus else self._place_without_gpu(pod)

    def _place_with_gpu(self, pod: TracePod) -> bool:
        self._cpu.learn(pod.total // EIGHTH, pod.cpu_milli * EIGHTH // pod.total)
        if self._pods > self._priced_at * 17 // 16:
            self._prices, self._priced_at = self._cpu.prices(), self._pods
        answer = self.ledger.place(ask_for(pod, str(self._pods)), 0.0)
        if not isinstance(answer, Placement) or answer.node is None:
            self.ledger.expire(LIFETIME_SECONDS)
            return False
        self._bind(pod, answer.node, tuple((index, pod.gpu_milli // EIGHTH) for index in answer.indices))
        return True

    def _place_without_gpu(self, pod: TracePod) -> bool:
        fitting = [
            (self._newly_unusable(left, pod.cpu_milli), left.slices, name)
            for name, left in self._left.items()
            if left.cpu >= pod.cpu_milli and left.memory >= pod.memory_mib * MIB
        ]
        if not fitting:
            return False
        self._bind(pod, min(fitting)[2], ())
        return True

    def _newly_unusable(self, left: _Left, cpu: int) -> int:
        prices = self._prices
        return unusable_slices(left.slices, left.cpu - cpu, prices) - unusable_slices(
            left.slices, left.cpu, prices
        )

    def _bind(self, pod: TracePod, node: str, gpus: tuple[tuple[int, int], ...]) -> None:
        self._left[node].cpu -= pod.cpu_milli
        self._left[node].memory -= pod.memory_mib * MIB
        self._left[node].slices -= pod.total // EIGHTH
        fact = PodFact(
            namespace="default",
            name=str(self._pods),
            node=node,
            takes=gpus,
            cpu_milli=pod.cpu_milli,
            memory_bytes=pod.memory_mib * MIB,
            reservation=str(self._pods),
        )
        self.ledger.set_pod(fact)


@dataclass(slots=True)
class _Left:
    """What is left of one node: milli-CPU, bytes, slices."""

    cpu: int
    memory: int
    slices: int


@cache
def _naming(models: tuple[str, ...]) -> Constraints:
    if not models:
        return Constraints()
    return Constraints(required_terms=(NodeSelectorTerm((Requirement(MODEL_LABEL, "In", models),)),))


def ask_for(pod: TracePod, reservation: str) -> PlacementRequest:
    """What the webhook would ask for a pod of the trace, in eighths."""
    share = RequestedShare(
        Fraction(pod.total // EIGHTH, GPU // EIGHTH),
        cpu_milli=pod.cpu_milli,
        memory_bytes=pod.memory_mib * MIB,
    )
    demands = Demands(constraints=_naming(pod.models))
    return PlacementRequest(share, demands, Accounting(reservation=reservation))


def node_fact(order: int, node: TraceNode) -> NodeFact:
    """What the ledger would know of a node of the trace."""
    return NodeFact(
        name=f"{order:06}",
        labels={GPU_MEMORY_LABEL: "16384", MODEL_LABEL: node.model, HOST_LABEL: f"{order:06}"},
        gpus=tuple((index, GPU // EIGHTH) for index in range(node.gpus)),
        slices_per_gpu=GPU // EIGHTH,
        gpu_mib=16384,
        cpu_milli=node.cpu_milli,
        memory_bytes=node.memory_mib * MIB,
    )
