"""Selections are remembered up to so many bytes, because pod authors write what they are made of."""

import tracemalloc

import pytest

from kube.scheduling import Constraints, NodeSelectorTerm, Toleration
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from tests.ledger.cluster import changed, eighths, gpu_node, ledger_of


@pytest.mark.parametrize("labels", [100, 2000])
def test_what_is_remembered_of_many_pods_is_bounded(labels: int) -> None:
    ledger = ledger_of(gpu_node("a"), gpu_node("b"))
    tracemalloc.start()
    try:
        for number in range(40_000 // labels):
            selector = {f"{number}-{each}": "v" * 60 for each in range(labels)}
            ledger.place(eighths(1, constraints=Constraints(selector)), 0.0)
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 2**22


DIFFERENCES = [
    {"fraction": Fraction(2, 8)},
    {"mode": "pooled"},
    {"writes_limits": False},
    {"pool": "nvidia.com/gpu.shared"},
    {"extended": (("rdma/hca", 1),)},
    {"kinds": GpuKinds(("H100",))},
    {"owner": "train", "same_model": True},
    {"awaits_names": True},
    {"constraints": Constraints({"zone": "a"})},
    {"constraints": Constraints(required_terms=(NodeSelectorTerm(),))},
    {"constraints": Constraints(tolerations=(Toleration(operator="Exists"),))},
    {"constraints": Constraints(node_name="a")},
]


@pytest.mark.parametrize("changes", DIFFERENCES, ids=lambda changes: next(iter(changes)))
def test_requests_that_may_suit_other_nodes_share_no_selection(changes: dict[str, object]) -> None:
    finder = ledger_of(gpu_node("a"))._finder
    selected = finder.select(eighths(1))
    assert finder.select(eighths(1, namespace="other")) is selected
    assert finder.select(changed(eighths(1), **changes)) is not selected
