"""What the classes of nodes tell together when prices are renewed."""

from __future__ import annotations

from ledger.ledger import Ledger
from ledger.placement.node_class import free_gpus
from ledger.placement.node_index import NodeIndex
from ledger.placement.request_history import FreeGpus
from modes.facts import NodeFact
from tests.ledger.cluster import gpu_node, holder, ledger_of


def free_in(ledger: Ledger) -> FreeGpus:
    """What is free in a ledger."""
    ledger._node_index.flush()
    return free_gpus(ledger._node_index.classes.values())


def test_what_is_free_and_taken_is_summed_over_nodes_of_all_classes() -> None:
    ledger = ledger_of(
        gpu_node("a", 8, cpu_milli=96_000),
        gpu_node("b", 2, cpu_milli=16_000),
        holders=(holder("half", "a", (0, 4), cpu_milli=6_000), holder("no-gpu", "b", cpu_milli=5_000)),
    )
    assert free_in(ledger) == FreeGpus(60 + 16, {7: 1, 2: 1}, 90_000 + 11_000, 4, 6_000 + 5_000)


def test_nodes_that_take_no_pods_now_count_neither_as_free_nor_as_taken() -> None:
    ledger = ledger_of(
        gpu_node("a", 1, cpu_milli=8_000),
        gpu_node("closed", 1, cpu_milli=8_000, usable=False),
        holders=(holder("p", "closed", (0, 8), cpu_milli=4_000),),
    )
    assert free_in(ledger) == FreeGpus(8, {1: 1}, 8_000, 0, 0)


def test_nodes_of_pools_do_not_count_as_their_gpus_have_no_names() -> None:
    pool = NodeFact(name="pool", pooled=32, pooled_gpus=4, cpu_milli=64_000, memory_bytes=2**40)
    assert free_in(ledger_of(pool)) == FreeGpus()


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
