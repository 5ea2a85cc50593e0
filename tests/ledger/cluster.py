"""Words of the tests: nodes with GPUs, holders, asks in eighths."""

from __future__ import annotations

from ledger.facts import NodeFact, PodFact
from ledger.ledger import Ledger
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction

GIB = 2**30


def gpu_node(name: str, count: int = 2, mib: int = 81920, **changes: object) -> NodeFact:
    labels = {"nvidia.com/gpu.memory": str(mib), "kubernetes.io/hostname": name}
    gpus = tuple((index, 8) for index in range(count))
    known = {"name": name, "labels": labels, "gpus": gpus, "slices_per_gpu": 8, "gpu_mib": mib}
    return NodeFact(**(known | changes))


def holder(name: str, node: str | None, *gpus: tuple[int, int], **changes: object) -> PodFact:
    return PodFact(**{"namespace": "default", "name": name, "node": node, "gpus": gpus, **changes})


def eighths(slices: int, **changes: object) -> PlacementRequest:
    return PlacementRequest(Fraction(slices, 8), **changes)


def ledger_of(*facts: NodeFact, holders: tuple[PodFact, ...] = ()) -> Ledger:
    ledger = Ledger()
    ledger.replace(facts, holders)
    return ledger
