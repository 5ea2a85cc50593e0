"""Metrics of each GPU, from the leader alone: apart from the others, and in parts.

There are two series for each GPU of the cluster; rendered in one step, those of 10,000 nodes would hold up
placements.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from controller.ledger_store import LedgerStore
from controller.ledger_stream import node_views
from ledger.view import NodeView

PATH = "/metrics/gpus"
NAME = "fraction_injector_gpu_slices"
HELP = "Slices of one GPU, or of the pool of a node, by state: used, or free (negative when over-committed)."
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


async def render(state: LedgerStore, *, leads: bool) -> AsyncIterator[str]:
    """Write the series in Prometheus' text format; none where this replica does not lead."""
    yield f"# HELP {NAME} {HELP}\n# TYPE {NAME} gauge\n"
    if leads:
        async for nodes in node_views(state):
            yield "".join([line for node in nodes for line in _lines(node)])


def _lines(node: NodeView) -> Iterator[str]:
    name = node.name.translate(_ESCAPES)
    for gpu in node.gpus:
        for state, slices in (("used", gpu.used), ("free", gpu.free)):
            yield f'{NAME}{{node="{name}",gpu="{gpu.name}",state="{state}"}} {slices}\n'
