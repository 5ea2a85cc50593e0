"""Where a pod waits when nothing has room, and how that spreads."""

from __future__ import annotations

from collections import Counter

from ledger.ask import Placement
from ledger.ledger import Ledger
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of


def full(*sizes: tuple[int, int]) -> Ledger:
    """Nodes of (GPUs, MiB), all full."""
    facts = [gpu_node(f"n{i}", count, mib) for i, (count, mib) in enumerate(sizes)]
    pods = [holder(f"{node.name}-{i}", node.name, (i, 8)) for node in facts for i, _ in node.gpus]
    return ledger_of(*facts, holders=tuple(pods))


def waits(ledger: Ledger, slices: int, name: str) -> Placement:
    answer = ledger.place(eighths(slices, namespace=name, reservation=name), 0.0)
    assert isinstance(answer, Placement)
    assert answer.node is None
    return answer


def test_pods_spread_over_indices_by_the_capacity_behind_each() -> None:
    ledger = full((4, 81920), (2, 81920))
    counts = Counter(waits(ledger, 4, f"p{i}").indices for i in range(30))
    assert counts == {(0,): 10, (1,): 10, (2,): 5, (3,): 5}


def test_a_waiting_pod_of_another_kind_of_gpu_does_not_count() -> None:
    ledger = full((1, 81920), (1, 16384))
    kinds = [waits(ledger, 4, f"p{i}").gpu_mib for i in range(4)]
    assert Counter(kinds) == {16384: 2, 81920: 2}


def test_whole_gpus_wait_for_indices_of_one_node() -> None:
    ledger = full((4, 81920), (2, 16384))
    assert waits(ledger, 24, "three").indices == (0, 1, 2)
    assert waits(ledger, 16, "two").indices == (0, 1)
    assert waits(ledger, 8, "one").indices == (3,)


def test_a_cordoned_index_is_waited_for_only_if_there_is_no_other() -> None:
    ledger = ledger_of(gpu_node("a", 2, cordoned=frozenset({0})), holders=(holder("p", "a", (1, 8)),))
    assert [waits(ledger, 4, f"p{i}").indices for i in range(3)] == [(1,)] * 3
    ledger = ledger_of(gpu_node("a", 1, cordoned=frozenset({0})))
    assert waits(ledger, 4, "p").indices == (0,)


def test_nodes_that_are_down_are_waited_for_only_if_all_are() -> None:
    down = gpu_node("a", 8, usable=False)
    ledger = ledger_of(down, gpu_node("b", 1), holders=(holder("p", "b", (0, 8)),))
    assert [waits(ledger, 4, f"p{i}").indices for i in range(3)] == [(0,)] * 3
    assert waits(ledger_of(down), 4, "p").indices == (0,)


def test_a_full_pool_has_no_index_to_wait_for() -> None:
    pool = gpu_node("a", 0, pooled=8, pooled_gpus=1)
    ledger = ledger_of(pool, holders=(holder("p", "a", pooled=8),))
    assert ledger.place(eighths(4, mode="pooled"), 0.0) == Placement((), 81920, ("81920",), None)


def test_a_pod_that_was_bound_waits_no_more() -> None:
    ledger = full((2, 81920))
    ledger.set_pod(holder("w", None, (0, 4), memory_values=("81920",)))
    assert waits(ledger, 4, "first").indices == (1,)
    ledger.set_pod(holder("w", "n0", (0, 4)))
    assert ledger.waiting()[0].name == "first"
    assert waits(ledger, 4, "second").indices == (0,)
