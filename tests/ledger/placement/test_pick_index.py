"""Where a pod waits when nothing has room, and how that spreads."""

from collections import Counter

from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, placed


def test_pods_spread_over_indices_by_the_capacity_behind_each() -> None:
    nodes = gpu_node("n0", 4), gpu_node("n1", 2)
    pods = [holder(f"{node.name}-{i}", node.name, (i, 8)) for node in nodes for i, _ in node.gpus]
    ledger = ledger_of(*nodes, holders=tuple(pods))
    waiting = [placed(ledger, eighths(4, namespace=f"p{i}", reservation=f"p{i}")) for i in range(30)]
    assert {answer.node for answer in waiting} == {None}
    counts = Counter(answer.indices for answer in waiting)
    assert counts == {(0,): 10, (1,): 10, (2,): 5, (3,): 5}
