"""Selections are remembered up to so many bytes, because pod authors write what they are made of."""

from __future__ import annotations

import tracemalloc

import pytest

from kube.scheduling import Constraints, NodeSelectorTerm, Requirement, Toleration
from ledger.placement.candidates import MAX_BYTES
from tests.ledger.cluster import eighths, gpu_node, ledger_of


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


def test_a_selection_is_remembered_for_pods_that_ask_the_same() -> None:
    ledger = ledger_of(gpu_node("a"))
    asked = Constraints({"zone": "x" * 63})
    first = ledger._finder.select(eighths(1, constraints=asked))
    assert ledger._finder.select(eighths(1, constraints=asked)) is first


@pytest.mark.parametrize(
    "large",
    [
        Constraints({"k": "x" * MAX_BYTES}),
        Constraints(tolerations=(Toleration("x" * MAX_BYTES),)),
        Constraints(required_terms=(NodeSelectorTerm(None, (Requirement("k", "In", ("x",) * MAX_BYTES),)),)),
    ],
)
def test_a_large_one_is_not_remembered_at_all(large: Constraints) -> None:
    ledger = ledger_of(gpu_node("a"))
    ledger._finder.select(eighths(1, constraints=large))
    assert not ledger._finder._known
