"""Cards that DRA drivers offer, as lines for people."""

from cli.card_table import card_lines, card_lines_by_node, card_total
from cli.ledger_filter import Filter
from kube.dra import DRIVER
from ledger.card_view import CardShare, CardView


def card(device="gpu-0", *shares, node="a", mib=81920, **more):
    claimed = sum(share.memory_mib for share in shares)
    known = {"driver": DRIVER, "uuid": "GPU-0", "model": "NVIDIA L4", "taint": ""}
    sums = {"claimed_mib": claimed, "free_mib": mib - claimed, "claims": len(shares)}
    return CardView(node=node, device=device, memory_mib=mib, shares=shares, **known | sums | more)


CARDS = [
    card("gpu-0", CardShare("team", "x-1", "train", 40960), CardShare("team", "x-2", "", 1431)),
    card("gpu-1", taint=f"{DRIVER}/xid=79", free_mib=0),
    card("gpu-0", CardShare("other", "y", "z", 24576), node="b", mib=24576),
]


def shown(lines):
    return [" ".join(line.plain.split()) for line in lines]


def test_a_card_is_a_line():
    assert shown(card_lines(CARDS)) == [
        "NODE CARD CLAIMED CLAIMS HELD BY",
        "a gpu-0 42391 of 81920 MiB 2 team/train: 40960, team/claim x-2: 1431",
        f"a gpu-1 taint {DRIVER}/xid=79 0 of 81920 MiB 0",
        "b gpu-0 24576 of 24576 MiB 1 other/z: 24576",
    ]


def test_wide_names_driver_and_model():
    assert shown(card_lines(CARDS[2:], wide=True)) == [
        "NODE DRIVER MODEL CARD CLAIMED CLAIMS HELD BY",
        f"b {DRIVER} NVIDIA L4 gpu-0 24576 of 24576 MiB 1 other/z: 24576",
    ]


def test_a_node_is_a_line_where_there_are_many_cards():
    assert shown(card_lines_by_node(CARDS)) == [
        "NODE CARDS FREE CLAIMS",
        "a 2 39529 of 163840 MiB 2",
        "b 1 0 of 24576 MiB 1",
    ]
    assert card_total(CARDS).plain == (
        "total: 39529 of 188416 MiB of GPU memory free to claims, on 3 cards of 2 nodes"
    )
    assert card_total(CARDS[2:]).plain.endswith("on 1 card of 1 node")


def test_names_of_strangers_stay_on_their_line():
    [_, line] = card_lines([card("gpu\n-0", CardShare("team", "c", "p\x1b[31m", 1), model="A\nB")], wide=True)
    assert "\n" not in line.plain
    assert "\x1b" not in line.plain


def test_cards_are_filtered_by_node_and_namespace_and_have_no_slices():
    assert Filter(node="b*").cards(CARDS) == CARDS[2:]
    assert Filter(namespace="team").cards(CARDS) == CARDS[:1]
    assert Filter().cards(CARDS) == CARDS
    assert Filter(queue="q").cards(CARDS) == Filter(free=1).cards(CARDS) == []
