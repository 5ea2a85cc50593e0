"""Several GPUs of one pod lie on as few NUMA nodes as can be, wherever that costs nobody any room."""

import random

import pytest

from ledger.placement.best_gpus import MAX_NUMA_NODES
from ledger.placement_request import PlacementRequest
from modes.facts import NodeFact
from modes.fraction import Fraction
from tests.ledger.cluster import gpu_node, holder, ledger_of, placed, request_of

TWO_HALVES = Fraction(8, 8, 2)


def numa_node(name: str, *numa: int, mib: int = 81920, **changes: object) -> NodeFact:
    cards = tuple((index, mib) for index in range(len(numa)))
    models = ("",) * len(numa)
    return gpu_node(name, len(numa), mib, cards=cards, card_models=models, card_numa=numa, **changes)


def test_a_machine_of_more_numa_nodes_than_are_told_apart_is_placed_on_as_ever():
    numa = [number // 2 for number in range(2 * MAX_NUMA_NODES + 2)]
    random.Random(1).shuffle(numa)  # noqa: S311 - a repeatable experiment
    assert placed(ledger_of(numa_node("a", *numa)), request_of(TWO_HALVES)).indices == (0, 1)


@pytest.mark.parametrize(
    ("numa", "held", "request_", "indices"),
    [
        ((0, 1, 0, 1), (), request_of(TWO_HALVES), (0, 2)),
        ((0, 1, 1, 0), ((0, 8),), request_of(Fraction(16, 8)), (1, 2)),
        ((0, 0, 1, 1), ((0, 4), (2, 4)), request_of(TWO_HALVES), (0, 2)),
        ((0, 1, 0, 1, 2), (), request_of(Fraction(24, 8)), (0, 1, 2)),
        ((0, 1, 0, 1), ((2, 8),), request_of(TWO_HALVES, writes_limits=False), (1, 3)),
    ],
    ids=["equal", "whole", "packing comes first", "two NUMA nodes at least", "limited by the agent"],
)
def test_several_gpus_are_on_the_fewest_numa_nodes_of_all_that_lose_as_little(
    numa: tuple[int, ...], held: tuple[tuple[int, int], ...], request_: PlacementRequest, indices: object
) -> None:
    ledger = ledger_of(numa_node("a", *numa), holders=(holder("p", "a", *held),))
    assert placed(ledger, request_).indices == indices
