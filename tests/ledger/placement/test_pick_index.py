"""Where a pod waits when nothing has room, and how that spreads."""

from collections import Counter

from ledger.ledger import Ledger
from ledger.placement_request import Placement
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, placed


def full(*sizes: tuple[int, int]) -> Ledger:
    """Nodes of (GPUs, MiB), all full."""
    facts = [gpu_node(f"n{i}", count, mib) for i, (count, mib) in enumerate(sizes)]
    pods = [holder(f"{node.name}-{i}", node.name, (i, 8)) for node in facts for i, _ in node.gpus]
    return ledger_of(*facts, holders=tuple(pods))


def waits(ledger: Ledger, slices: int, name: str) -> Placement:
    answer = placed(ledger, eighths(slices, namespace=name, reservation=name))
    assert answer.node is None
    return answer


def test_pods_spread_over_indices_by_the_capacity_behind_each() -> None:
    ledger = full((4, 81920), (2, 81920))
    counts = Counter(waits(ledger, 4, f"p{i}").indices for i in range(30))
    assert counts == {(0,): 10, (1,): 10, (2,): 5, (3,): 5}
