"""The ledger as people see it in a terminal."""

import pytest

from cli.ledger_filter import Filter
from cli.ledger_table import MAX_BLOCKS, lines_by_node, totals
from kube.dra import DRIVER
from ledger.view import GpuView, Holding, LedgerView, Unlisted
from tests.cli.ledger_views import CARDS, SOME, TASK, node, shown


def test_each_gpu_is_a_line_of_blocks_with_its_holders():
    assert shown(SOME) == [
        "NODE GPU SLICES FREE HELD BY",
        "gpu-0 not usable 0 █████░░░ 0 of 8 team/a: 4, team/b: 1",
        "gpu-0 not usable 1 cordoned ██▓ 0 of 2 other/clearml-i…6fa3c58d0e1b72964d: 3",
        "gpu-0 not usable pool ░░░░ 0 of 4",
        "cpu-7 no memory label 0 ░░░░░░░░ 8 of 8",
        "waits: team/d for 8 of GPU 0",
    ]


def test_wide_lines_hold_whole_names_products_and_memory():
    assert shown(SOME, wide=True)[:3] == [
        "NODE PRODUCT MIB STATE GPU SLICES FREE HELD BY",
        "gpu-0 H100 81920 not usable 0 █████░░░ 0 of 8 team/a: 4, team/b: 1",
        f"gpu-0 H100 81920 not usable 1 cordoned ██▓ 0 of 2 other/{TASK}: 3",
    ]
    assert shown(SOME, wide=True)[4] == "cpu-7 ? no label usable 0 ░░░░░░░░ 8 of 8"


def test_a_card_that_is_not_as_the_label_says_shows_its_own_mib_and_model():
    other = GpuView(1, 8, (), memory_mib=81920, model="A100")
    cards = (GpuView(0, 8, (), memory_mib=40960), other, GpuView(2, 8, ()))
    view = LedgerView((node("mixed", *cards, gpu_mib=40960), node("bare", cards[1], gpu_mib=None)), ())
    assert [line.split(" ░")[0] for line in shown(view)[1:]] == [
        "mixed 0",
        "mixed 1 of 81920 MiB",
        "mixed 2",
        "bare 1 of 81920 MiB",
    ]
    wide = [line.split()[1:3] for line in shown(view, wide=True)[1:]]
    assert wide == [["H100", "40960"], ["A100", "81920"], ["H100", "40960"], ["A100", "81920"]]


def test_pods_that_are_not_listed_are_summed_up_and_no_filter_hides_them():
    held = GpuView(0, 8, (Holding("team", "a", "holder", 2),), unlisted=Unlisted(40, 50, 48))
    view = LedgerView((node("gpu-0", held),), ())
    line = shown(view, wide=True)[1]
    assert line.endswith(" 0 of 8 team/a: 2, and 40 more: 50")
    assert Filter(namespace="other").apply(view) == view


@pytest.mark.parametrize("capacity", [33, 64, 10**18])
def test_any_number_of_slices_is_drawn_in_a_screens_width(capacity):
    held = Holding("team", "a", "holder", 1), Holding("team", "b", "holder", capacity * 2)
    gpu = GpuView(None, capacity, held)
    for drawn in (gpu, GpuView(None, capacity, ())):
        line = shown(LedgerView((node("gpu-0", drawn),), ()))[1]
        assert MAX_BLOCKS // 2 <= sum(line.count(block) for block in "█░▓") <= MAX_BLOCKS + 3


def test_a_card_of_a_dra_driver_is_a_line_after_those_of_slices():
    cards = [
        "NODE CARD CLAIMED CLAIMS HELD BY",
        "a gpu-0 42391 of 81920 MiB 2 team/train: 40960, team/claim x-2: 1431",
        f"a gpu-1 taint {DRIVER}/xid=79 0 of 81920 MiB 0",
        "b gpu-0 24576 of 24576 MiB 1 other/z: 24576",
    ]
    assert shown(LedgerView(CARDS, ())) == cards
    assert shown(LedgerView((*SOME.nodes, *CARDS), SOME.backlog)) == [*shown(SOME), *cards]
    assert shown(LedgerView(CARDS[1:], ()), wide=True) == [
        "NODE DRIVER MODEL CARD CLAIMED CLAIMS HELD BY",
        f"b {DRIVER} NVIDIA L4 gpu-0 24576 of 24576 MiB 1 other/z: 24576",
    ]


def test_nodes_with_cards_are_summed_up_by_node_and_in_all():
    view = LedgerView(CARDS, ())
    assert [" ".join(line.split()) for line in lines_by_node(view)] == [
        "NODE CARDS FREE CLAIMS",
        "a 2 39529 of 163840 MiB 2",
        "b 1 0 of 24576 MiB 1",
    ]
    assert list(totals(view)) == [
        "total: 39529 of 188416 MiB of GPU memory free to claims, on 3 cards of 2 nodes"
    ]


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


def test_cards_are_filtered_too_and_have_no_slices():
    for asked, left in ((Filter(node="b*"), ["b"]), (Filter(namespace="team"), ["a"]), (Filter(free=1), [])):
        found = asked.apply(LedgerView(CARDS, ()))
        assert [card.node for node in found.nodes for card in node.cards] == left
