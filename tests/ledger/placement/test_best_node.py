"""The walk over groups of nodes finds one that no other surpasses, by the score that each has by itself."""

from __future__ import annotations

import random

from ledger.ledger import Ledger
from ledger.placement.node_class import Search
from ledger.placement_request import Placement, PlacementRequest
from modes.fraction import Fraction
from tests.ledger.cluster import gpu_node, request_of


def scores(ledger: Ledger, request: PlacementRequest) -> dict[str, int]:
    """The score of each node that has room."""
    index = ledger._node_index
    index.flush()
    asked = Search(request, None)
    each = {name: index.class_of(name).score(account, asked) for name, account in index.accounts.items()}
    return {name: score for name, score in each.items() if score is not None}


def test_no_node_is_better_than_the_chosen_one_while_pods_come_and_go() -> None:
    draw, placed = random.Random(1), 0  # noqa: S311 - a repeatable experiment
    for _ in range(20):
        cpus = [
            draw.choice([8000, draw.randint(4000, 15_999), draw.randint(4000, 96_000)])
            for _ in range(draw.randint(2, 40))
        ]
        nodes = [
            gpu_node(f"n{number}", draw.choice([1, 2]), draw.choice([40960, 81920]), cpu_milli=cpu)
            for number, cpu in enumerate(cpus)
        ]
        ledger = Ledger()
        ledger.replace(nodes, [])
        for number in range(60):
            fraction = Fraction(draw.choice([*range(1, 9), 16]), 8)
            cpu = draw.choice([0, 1000, draw.randint(0, 16_000)])
            request = request_of(fraction, cpu_milli=cpu, reservation=f"r{number}")
            known = scores(ledger, request)
            answer = ledger.place(request, 0.0)
            assert isinstance(answer, Placement)
            assert (answer.node is None) == (not known)
            if answer.node is not None:
                assert known[answer.node] == max(known.values())
                placed += 1
            if draw.random() < 0.4:
                ledger.release(f"r{draw.randint(0, number)}")
    assert placed > 500
