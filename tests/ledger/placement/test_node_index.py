"""What the classes of nodes tell together when prices are renewed."""

from __future__ import annotations

from ledger.facts import NodeFact
from ledger.ledger import Ledger
from ledger.placement.node_class import free_gpus
from ledger.placement.request_history import FreeGpus
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
