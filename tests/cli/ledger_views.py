"""Ledgers to be shown, and how they are shown."""

import re
from dataclasses import replace

from cli.ledger_table import lines
from kube.dra import DRIVER
from ledger.card_view import CardShare, CardView
from ledger.view import GpuView, Holding, LedgerView, NodeView, PendingView

TASK = "clearml-id-4f1c9a7be2d04b6fa3c58d0e1b72964d"


def node(name="gpu-0", *gpus, usable=True, **changes):
    gpus = tuple(replace(gpu, usable=usable) for gpu in gpus)
    fields = {"usable": usable, "slices_per_gpu": 8, "gpu_mib": 81920, "product": "H100", "gpus": gpus}
    return NodeView(name, **{**fields, **changes})


def plain(line):
    """A line as read, without our colours."""
    return " ".join(re.sub(r"\x1b\[[0-9]+m", "", line).split())


def shown(view, **options):
    return list(map(plain, lines(view, **options)))


SOME = LedgerView(
    (
        node(
            "gpu-0",
            GpuView(0, 8, (Holding("team", "a", "holder", 4, "q-1"), Holding("team", "b", "reservation", 1))),
            GpuView(1, 2, (Holding("other", TASK, "holder", 3),), cordoned=True),
            GpuView(None, 4, ()),
            usable=False,
        ),
        node("cpu-7", GpuView(0, 8, ()), gpu_mib=None, product=None),
    ),
    (PendingView("team", "d", "pod", (0,), 8),),
)


def card(device="gpu-0", *shares, node="a", mib=81920, **more):
    claimed = sum(share.memory_mib for share in shares)
    known = {"driver": DRIVER, "uuid": "GPU-0", "model": "NVIDIA L4", "taint": ""}
    sums = {"claimed_mib": claimed, "free_mib": mib - claimed, "claims": len(shares)}
    return CardView(node=node, device=device, memory_mib=mib, shares=shares, **known | sums | more)


CARDS = tuple(
    NodeView(name, usable=True, slices_per_gpu=0, gpu_mib=None, product=None, gpus=(), cards=cards)
    for name, cards in {
        "a": (
            card("gpu-0", CardShare("team", "x-1", "train", 40960), CardShare("team", "x-2", "", 1431)),
            card("gpu-1", taint=f"{DRIVER}/xid=79", free_mib=0),
        ),
        "b": (card("gpu-0", CardShare("other", "y", "z", 24576), node="b", mib=24576),),
    }.items()
)
"""Two nodes with cards that a DRA driver offers."""
