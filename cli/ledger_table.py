"""The ledger as a table: a line for each GPU, a block for each slice, and who holds it."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ledger.view import GpuView, LedgerView, NodeView, Waiting

STYLES = {"holder": "green", "promised": "cyan", "reservation": "yellow"}
HELD, FREE, OVER = "█", "░", "▓"


def table(view: LedgerView) -> Group:
    """Draw nodes, GPUs and holders; below them who waits."""
    drawn = Table(box=None, pad_edge=False)
    for column in ("NODE", "GPU", "SLICES", "FREE", "HELD BY"):
        drawn.add_column(column, no_wrap=column != "HELD BY")
    for node in view.nodes:
        for number, gpu in enumerate(node.gpus):
            drawn.add_row(
                _name(node) if number == 0 else "", _index(gpu), _slices(gpu), _free(gpu), _shares(gpu)
            )
    parts: list[Table | Text] = [drawn if view.nodes else Text("no node has GPUs")]
    parts += [_waiting(waiting) for waiting in view.backlog]
    return Group(*parts)


def _name(node: NodeView) -> Text:
    what = f" {node.product or 'GPU'} {node.gpu_mib or '?'} MiB" + ("" if node.usable else ", not usable")
    return Text(node.name).append(what, style="dim")


def _index(gpu: GpuView) -> str:
    return ("pool" if gpu.index is None else str(gpu.index)) + (" cordoned" if gpu.cordoned else "")


def _slices(gpu: GpuView) -> Text:
    drawn, left = Text(), gpu.capacity
    for share in gpu.shares:
        within = max(0, min(share.slices, left))
        drawn.append(HELD * within + OVER * (share.slices - within), style=STYLES[share.kind])
        left -= share.slices
    return drawn.append(FREE * max(0, gpu.free), style="dim")


def _free(gpu: GpuView) -> str:
    return f"{gpu.free} of {gpu.capacity}"


def _shares(gpu: GpuView) -> str:
    return ", ".join(f"{share.namespace}/{share.name}: {share.slices}" for share in gpu.shares)


def _waiting(waiting: Waiting) -> Text:
    where = f"GPU {', '.join(map(str, waiting.indices))}" if waiting.indices else "any GPU"
    return Text(f"waits: {waiting.namespace}/{waiting.name} for {waiting.slices} of {where}", style="yellow")
