"""Replicas of one owner are spread over nodes and GPUs."""

from ledger.ledger import Ledger
from ledger.placement_request import PlacementRequest
from tests.ledger.cluster import eighths, gpu_node, ledger_of, placed


def spread(slices: int = 2, number: int = 0, **changes: object) -> PlacementRequest:
    return eighths(slices, **{"owner": "train", "place": "spread", "reservation": f"r-{number}", **changes})


def places(ledger: Ledger, count: int, **changes: object) -> list[tuple[str | None, tuple[int, ...]]]:
    answers = [placed(ledger, spread(number=number, **changes)) for number in range(count)]
    return [(answer.node, answer.indices) for answer in answers]


def test_replicas_go_to_other_nodes_first_then_to_other_gpus():
    found = places(ledger_of(gpu_node("a"), gpu_node("b"), gpu_node("c")), 9)
    assert sorted(found[:3]) == [("a", (0,)), ("b", (0,)), ("c", (0,))]
    assert sorted(found[3:6]) == [("a", (1,)), ("b", (1,)), ("c", (1,))]
    assert sorted(found[6:]) == [("a", (0,)), ("b", (0,)), ("c", (0,))]


def test_a_pooled_mode_spreads_over_nodes():
    nodes = [gpu_node(name, 0, pooled=16, pooled_gpus=2) for name in "abc"]
    found = places(ledger_of(*nodes), 6, mode="pooled")
    assert sorted(node for node, _ in found) == ["a", "a", "b", "b", "c", "c"]
