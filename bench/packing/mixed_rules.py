"""First fit, best fit, FGD and the product's ledger on clusters of unlike nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from math import exp

from bench.packing.mixed import SLICES, MixedCluster, MixedNode, MixedPod
from bench.packing.policies import MODEL_LABEL
from kube.names import GPU_MEMORY_LABEL
from kube.scheduling import Constraints, Taint, Toleration
from ledger.ledger import Ledger
from ledger.placement.expected_pods import ExpectedPods
from ledger.placement_request import Accounting, Demands, Placement, PlacementRequest, RequestedShare
from modes.facts import NodeFact
from modes.fraction import Fraction

ZONE_LABEL = "topology.kubernetes.io/zone"
TAINT = "dedicated"
_GPUS_TRIED = 10**9

Taken = tuple[int, tuple[int, ...], int]
"""Position of the node, positions of its GPUs, slices of each."""


class Scanning(ABC):
    """A rule that looks at every node; of equal ones it takes the first."""

    def __init__(self, cluster: MixedCluster) -> None:
        self.nodes = cluster.nodes
        self.free = [[SLICES] * node.gpus for node in cluster.nodes]
        self._accepting: dict[MixedPod, list[tuple[int, int]]] = {}

    @abstractmethod
    def best(self, fitting: Iterable[tuple[int, int]], pod: MixedPod) -> Taken:
        """Choose among the nodes with room, given as their positions and the slices of each GPU there."""

    def take(self, _name: str, pod: MixedPod) -> Taken | None:
        """Place a pod; None if no node has room."""
        nodes = self._accepting.get(pod)
        if nodes is None:
            nodes = self._accepting[pod] = [
                (at, slices)
                for at, node in enumerate(self.nodes)
                if pod.accepts(node) and (slices := pod.slices_on(node.gpu_mib)) is not None
            ]
        fitting = [each for each in nodes if _has_room(self.free[each[0]], each[1], pod.gpus)]
        if not fitting:
            return None
        taken = self.best(fitting, pod)
        self._change(taken, -1)
        return taken

    def give_back(self, taken: Taken) -> None:
        """Let a pod go."""
        self._change(taken, 1)

    def _change(self, taken: Taken, sign: int) -> None:
        at, gpus, slices = taken
        for gpu in gpus:
            self.free[at][gpu] += sign * slices


def _has_room(free: Sequence[int], slices: int, gpus: int) -> bool:
    if gpus == 1:
        return max(free) >= slices
    return sum([left >= slices for left in free]) >= gpus


def _fullest(free: Sequence[int], slices: int, gpus: int) -> tuple[int, ...]:
    """The GPUs with the least room that suffices."""
    return tuple(
        sorted([gpu for gpu, left in enumerate(free) if left >= slices], key=free.__getitem__)[:gpus]
    )


class FirstFit(Scanning):
    """The first node, and its first GPUs."""

    def best(self, fitting: Iterable[tuple[int, int]], pod: MixedPod) -> Taken:
        """The first."""
        at, slices = next(iter(fitting))
        gpus = [gpu for gpu, left in enumerate(self.free[at]) if left >= slices]
        return at, tuple(gpus[: pod.gpus]), slices


class FullestNode(Scanning):
    """Best fit by nodes: the node with the fewest free slices, and its fullest GPUs."""

    def best(self, fitting: Iterable[tuple[int, int]], pod: MixedPod) -> Taken:
        """The fullest."""
        at, slices = min(fitting, key=lambda each: sum(self.free[each[0]]))
        return at, _fullest(self.free[at], slices, pod.gpus), slices


class FullestGpu(Scanning):
    """Best fit by GPUs: those that have the fewest slices left afterwards."""

    def best(self, fitting: Iterable[tuple[int, int]], pod: MixedPod) -> Taken:
        """The fullest."""
        choices = [(at, _fullest(self.free[at], slices, pod.gpus), slices) for at, slices in fitting]
        return min(choices, key=lambda each: sum([self.free[each[0]][gpu] - each[2] for gpu in each[1]]))


class Fgd(Scanning):
    """The node and the GPUs whose fragments grow least in the eyes of the pods that will come.

    As in the paper's implementation, the score is squeezed into whole numbers up to 100.
    """

    def __init__(self, cluster: MixedCluster, coming: Sequence[MixedPod]) -> None:
        super().__init__(cluster)
        self._typical = Counter(coming)
        self._total = len(coming)
        self._asking: dict[int, list[tuple[int, int, int]]] = {}
        """Slices, GPUs and number of the pods that a node takes; by the first node that is alike."""
        first: dict[tuple[str, str, bool], int] = {}
        kinds = [(node.model, node.zone, node.is_tainted) for node in self.nodes]
        self._alike = [first.setdefault(kind, at) for at, kind in enumerate(kinds)]
        self._known: dict[tuple[int, tuple[int, ...]], float] = {}

    def best(self, fitting: Iterable[tuple[int, int]], pod: MixedPod) -> Taken:
        """The node whose score is highest, and there the GPUs that leave the fewest fragments."""
        found: tuple[int, Taken] | None = None
        for at, slices in fitting:
            lost, gpus = min(self._after(at, slices, pod.gpus))
            score = int(100 / (1 + exp((lost - self._fragments(at, self.free[at])) / SLICES)))
            if found is None or score > found[0]:
                found = score, (at, gpus, slices)
        assert found is not None
        return found[1]

    def _after(self, at: int, slices: int, gpus: int) -> list[tuple[float, tuple[int, ...]]]:
        free = self.free[at]
        fullest = _fullest(free, slices, SLICES)
        choices = [(gpu,) for gpu in fullest] if gpus == 1 else [fullest[:gpus]]
        return [
            (self._fragments(at, [left - slices * (gpu in each) for gpu, left in enumerate(free)]), each)
            for each in choices
        ]

    def _fragments(self, at: int, free: Sequence[int]) -> float:
        """Free slices of a node that typical pods cannot use, on average."""
        key = self._alike[at], tuple(sorted(free))
        found = self._known.get(key)
        if found is None:
            usable = 0
            for slices, gpus, pods in self._pods_for(key[0]):
                if sum([left >= slices for left in key[1]]) >= gpus:
                    usable += pods * sum([left for left in key[1] if left >= slices])
            found = self._known[key] = sum(key[1]) - usable / self._total
        return found

    def _pods_for(self, at: int) -> list[tuple[int, int, int]]:
        found = self._asking.get(at)
        if found is None:
            node, asked = self.nodes[at], Counter[tuple[int, int]]()
            for pod, pods in self._typical.items():
                if pod.accepts(node) and (slices := pod.slices_on(node.gpu_mib)) is not None:
                    asked[slices, pod.gpus] += pods
            found = self._asking[at] = [(*each, pods) for each, pods in asked.items()]
        return found


class Ours:
    """The product's ledger, asked with reservations, so that it learns."""

    def __init__(self, cluster: MixedCluster) -> None:
        self.ledger = Ledger(most_reservations=_GPUS_TRIED)
        self.ledger.replace([node_fact(node) for node in cluster.nodes], [])

    def take(self, name: str, pod: MixedPod) -> str | None:
        """Reserve; what only waits is given back at once."""
        answer = self.ledger.place(request_for(pod, name), 0.0)
        if isinstance(answer, Placement) and answer.node is not None:
            return name
        self.ledger.release(name)
        return None

    def give_back(self, taken: str) -> None:
        """End the reservation."""
        self.ledger.release(taken)


class Unlearnt(Ours):
    """The ledger if it learnt nothing from the pods that arrive."""

    def __init__(self, cluster: MixedCluster) -> None:
        super().__init__(cluster)
        self.ledger._expected[SLICES] = _NeverCounted(SLICES)  # noqa: SLF001 - what is measured


class _NeverCounted(ExpectedPods):
    def _count(self, *_: object) -> None:
        """Count no kind."""


def node_fact(node: MixedNode) -> NodeFact:
    """What the ledger would know of the node."""
    return NodeFact(
        name=node.name,
        labels={GPU_MEMORY_LABEL: str(node.gpu_mib), MODEL_LABEL: node.model, ZONE_LABEL: node.zone},
        taints=(Taint(TAINT, "NoSchedule", "gpu"),) if node.is_tainted else (),
        gpus=tuple([(gpu, SLICES) for gpu in range(node.gpus)]),
        slices_per_gpu=SLICES,
        gpu_mib=node.gpu_mib,
    )


def request_for(pod: MixedPod, reservation: str) -> PlacementRequest:
    """What the webhook would ask for the pod."""
    share, demands = _request_parts(pod)
    return PlacementRequest(share, demands, Accounting(reservation=reservation))


@cache
def _request_parts(pod: MixedPod) -> tuple[RequestedShare, Demands]:
    labels = {MODEL_LABEL: pod.model, ZONE_LABEL: pod.zone}
    tolerations = (Toleration(TAINT, "Equal", "gpu", "NoSchedule"),) if pod.tolerates else ()
    constraints = Constraints({key: value for key, value in labels.items() if value}, tolerations=tolerations)
    return RequestedShare(_fraction(pod)), Demands(constraints)


def _fraction(pod: MixedPod) -> Fraction:
    if pod.mib:
        return Fraction.of_memory(pod.mib, SLICES).on_each_of(pod.gpus)
    if pod.slices == SLICES:
        return Fraction(SLICES * pod.gpus, SLICES)
    return Fraction(pod.slices, SLICES).on_each_of(pod.gpus)
