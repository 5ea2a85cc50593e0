"""Several GPUs of one pod lie on as few NUMA nodes as can be, wherever that costs nobody any room."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

import pytest
from msgspec import structs

from ledger.ledger import Ledger
from ledger.placement.best_gpus import MAX_NUMA_NODES
from ledger.placement.prices import Prices
from ledger.placement_request import Placement, PlacementRequest
from modes.facts import NodeFact
from modes.fraction import Fraction
from tests.effort import by_turns, examples
from tests.ledger.checker import SlowNode, card_choices
from tests.ledger.cluster import gpu_node, holder, ledger_of, placed, request_of
from tests.ledger.oracle import assert_right, slow_nodes

SEVERAL = [
    *(Fraction(16, 8), Fraction(24, 8), Fraction(32, 8)),
    *(Fraction(slices * parts, 8, parts) for slices in (1, 3, 4, 7) for parts in (2, 3, 4)),
]
TWO_HALVES = Fraction(8, 8, 2)
CLUSTERS = examples(300)


def numa_node(name: str, *numa: int, mib: int = 81920, **changes: object) -> NodeFact:
    """A node whose agent tells the NUMA node of each GPU."""
    cards = tuple((index, mib) for index in range(len(numa)))
    models = ("",) * len(numa)
    return gpu_node(name, len(numa), mib, cards=cards, card_models=models, card_numa=numa, **changes)


def test_a_gpu_of_which_the_agent_does_not_tell_is_near_to_none():
    ledger = ledger_of(structs.replace(numa_node("a", 1, 0, 0), gpus=tuple((gpu, 8) for gpu in range(5))))
    assert placed(ledger, request_of(TWO_HALVES)).indices == (1, 2)


def test_a_machine_of_more_numa_nodes_than_are_told_apart_is_placed_on_as_ever():
    numa = [number // 2 for number in range(2 * MAX_NUMA_NODES + 2)]
    random.Random(1).shuffle(numa)  # noqa: S311 - a repeatable experiment
    assert placed(ledger_of(numa_node("a", *numa)), request_of(TWO_HALVES)).indices == (0, 1)


def random_node(rng: random.Random, name: str) -> NodeFact:
    """A node of some GPUs on one to four NUMA nodes; cards may differ, and its agent may tell nothing."""
    gpus = rng.randint(2, 6)
    numa = [rng.randrange(rng.randint(1, 4)) for _ in range(gpus)]
    node = numa_node(name, *(numa if len({*numa}) > 1 else ()))
    if not node.cards:
        return gpu_node(name, gpus)
    if rng.random() < 0.3:
        cards = tuple((index, rng.choice((40960, 81920))) for index in range(gpus))
        return structs.replace(node, cards=cards)
    return node


def span_of(node: SlowNode, indices: tuple[int, ...]) -> int:
    """NUMA nodes that some GPUs are on; 1 where nobody tells."""
    return len({node.fact.card_numa[index] for index in indices}) if node.fact.card_numa else 1


def equal_sets(
    node: SlowNode, request: PlacementRequest, answer: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """Give every set of GPUs of a node that loses as little as any, of those that the answer is among."""
    fraction = request.share.fraction
    choices = [cards for cards in card_choices(node.fact, request) if cards >= {*answer}]
    free, each = node.free(), fraction.slices_on_each
    for cards in choices:
        roomy = [index for index in sorted(cards) if free[index] >= each]
        if request.accounting.owner and request.demands.place == "spread" and not fraction.is_whole:
            shares = node.shares_of(request.accounting.owner)
            most = sorted(shares.count(index) for index in roomy)[fraction.gpus - 1]
            roomy = [index for index in roomy if shares.count(index) <= most]
        sets = list(combinations(roomy, fraction.gpus))
        lost = [_lost(chosen, free, each, node.worth) for chosen in sets]
        best = min(lost, default=None)
        yield from (chosen for chosen, value in zip(sets, lost, strict=True) if value == best)


def _lost(chosen: tuple[int, ...], free: dict[int, int], each: int, worth: Prices) -> int:
    return sum(worth.gpu[free[index]] - worth.gpu[free[index] - each] for index in chosen)


@pytest.mark.parametrize("seed", range(by_turns("ledger", usual=3, full=6)))
def test_the_chosen_gpus_span_the_fewest_numa_nodes_of_all_that_lose_as_little(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a repeatable experiment
    several = 0
    for _ in range(CLUSTERS):
        nodes = {name: random_node(rng, name) for name in "abcd"[: rng.randint(1, 4)]}
        pods = [
            holder(f"{name}-{index}", name, (index, rng.choice((2, 4, 5, 8))))
            for name, node in nodes.items()
            for index, _ in node.gpus
            if rng.random() < 0.5
        ]
        ledger = Ledger()
        ledger.replace(nodes.values(), pods)
        for number in range(2):
            request = request_of(
                rng.choice(SEVERAL),
                reservation=f"r-{number}",
                writes_limits=rng.random() < 0.5,
                owner=rng.choice(["", "train"]),
                place=rng.choice(["pack", "spread"]),
            )
            before = slow_nodes(nodes.values(), pods, ledger)
            answer = ledger.place(request, 0.0)
            assert_right(answer, request, before)
            if not isinstance(answer, Placement) or answer.node is None:
                continue
            chosen = before[answer.node]
            sets = list(equal_sets(chosen, request, answer.indices))
            assert answer.indices in sets
            assert span_of(chosen, answer.indices) == min(span_of(chosen, each) for each in sets)
            several += span_of(chosen, answer.indices) > 1
    assert several, "some pods had to span NUMA nodes"
