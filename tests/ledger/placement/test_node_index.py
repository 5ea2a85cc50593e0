"""Nodes that are gone, and are kept by what was reserved on them."""

from __future__ import annotations

from ledger.placement.node_index import NodeIndex
from tests.ledger.cluster import gpu_node, holder


def test_a_reservation_without_slices_that_is_late_keeps_no_node_that_is_gone() -> None:
    index, late = NodeIndex(), holder("late", None)
    index.set_fact("n", gpu_node("n", 1))
    index.add_stale("n", late)
    index.set_fact("n", None)
    assert "n" not in index.accounts
    index.remove_stale("n", late)
    index.add_stale("n", late)
    assert "n" not in index.accounts


def test_a_late_reservation_with_slices_keeps_its_node_until_it_is_over() -> None:
    index, late = NodeIndex(), holder("late", None, (0, 4))
    index.set_fact("n", gpu_node("n", 1))
    index.add_stale("n", late)
    index.set_fact("n", None)
    assert index.accounts["n"].stale == {0: 4}
    index.remove_stale("n", late)
    assert "n" not in index.accounts
