"""Ledgers to be shown, and how they are shown."""

from dataclasses import replace

from cli.ledger_table import lines
from ledger.view import GpuView, Holding, LedgerView, NodeView, PendingView

TASK = "clearml-id-4f1c9a7be2d04b6fa3c58d0e1b72964d"


def node(name="gpu-0", *gpus, usable=True, **changes):
    gpus = tuple(replace(gpu, usable=usable) for gpu in gpus)
    fields = {"usable": usable, "slices_per_gpu": 8, "gpu_mib": 81920, "product": "H100", "gpus": gpus}
    return NodeView(name, **{**fields, **changes})


def shown(view, **options):
    return [" ".join(line.plain.split()) for line in lines(view, **options)]


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
