"""CPU in the score: what pods ask for with a slice, learnt at several levels, and slices that lack it."""

from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of

LITTLE, MUCH = 500, 4000
"""Milli-CPU that come with a slice."""


def test_a_pod_with_little_cpu_goes_where_others_would_lack_it() -> None:
    nodes = [gpu_node("rich", 1, cpu_milli=40_000), gpu_node("poor", 1, cpu_milli=39_000)]
    ledger = ledger_of(*nodes, holders=(holder("p", "poor", cpu_milli=31_000),))
    for cpu in (LITTLE, MUCH) * 1000:
        ledger.place(eighths(8, cpu_milli=8 * cpu, reservation="learns"), 0.0)
        ledger.release("learns")
    assert ledger.place(eighths(8, cpu_milli=8 * LITTLE), 0.0).node == "poor"
    assert ledger.place(eighths(8, cpu_milli=7 * LITTLE), 0.0).node == "poor"


def test_a_pod_with_much_cpu_goes_to_the_node_of_several_alike_that_has_enough_for_all_its_slices() -> None:
    nodes = [gpu_node(f"n{cpu}", 1, cpu_milli=cpu) for cpu in (8000, 12_000, 15_000)]
    ledger = ledger_of(*nodes)
    assert ledger.place(eighths(4, cpu_milli=8000), 0.0).node == "n12000"
    assert ledger.place(eighths(4, cpu_milli=500), 0.0).node == "n8000"
