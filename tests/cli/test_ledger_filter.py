"""What of the ledger is shown to who asks for a part of it."""

import pytest

from cli.ledger_filter import Filter
from ledger.card_view import CardShare
from ledger.view import LedgerView
from tests.cli.ledger_views import SOME, node
from tests.cli.test_card_table import card


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Filter(), [("gpu-0", 0), ("gpu-0", 1), ("gpu-0", None), ("cpu-7", 0)]),
        (Filter(node="gpu-*"), [("gpu-0", 0), ("gpu-0", 1), ("gpu-0", None)]),
        (Filter(namespace="team"), [("gpu-0", 0)]),
        (Filter(queue="Q_1"), [("gpu-0", 0)]),
        (Filter(queue="other"), []),
        (Filter(free=4), [("cpu-7", 0)]),
        (Filter(free=1, node="gpu-?"), []),
    ],
)
def test_filters_leave_whole_gpus(asked, expected):
    found = asked.apply(SOME)
    assert [(each.name, gpu.index) for each in found.nodes for gpu in each.gpus] == expected
    assert bool(found.backlog) is (asked in {Filter(), Filter(namespace="team")})


CARDS = LedgerView(
    (
        node(
            "a",
            cards=(
                card("gpu-0", CardShare("team", "x", "train", 40960, "q-1")),
                card("gpu-1", CardShare("other", "y", "eval", 20480)),
            ),
        ),
    ),
    (),
)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Filter(), ["gpu-0", "gpu-1"]),
        (Filter(node="a", namespace="other"), ["gpu-1"]),
        (Filter(queue="Q_1"), ["gpu-0"]),
        (Filter(queue="Q_1", namespace="other"), []),
        (Filter(node="b"), []),
        (Filter(free=1), []),
    ],
)
def test_cards_are_found_by_node_and_by_who_holds_parts_of_them(asked, expected):
    found = asked.apply(CARDS)
    assert [each.device for one in found.nodes for each in one.cards] == expected
