"""Selections are remembered up to so many bytes, because pod authors write what they are made of."""

import tracemalloc

import pytest

from kube.scheduling import Constraints
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
