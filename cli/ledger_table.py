"""The ledger as lines: one for each GPU, with a block for each slice, and its pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from cli.printing import shortened
from ledger.view import GpuView, LedgerView, NodeView, PendingView
from modes.units import Gpu, Profile, unit_name, unit_of
from policies.model.problems import printable

STYLES = {"holder": "green", "promised": "cyan", "reservation": "yellow"}
HELD, FREE, OVER = "█", "░", "▓"
MAX_BLOCKS = 32
"""A pool with more slices is drawn to scale."""
MAX_POD_NAME = 28
MAX_NAMED = 3
HEADINGS = ("NODE", "GPU", "SLICES", "FREE", "HELD BY")
WIDE_HEADINGS = ("NODE", "PRODUCT", "MIB", "STATE", "GPU", "SLICES", "FREE", "HELD BY")

BY_NODE = ("NODE", "PRODUCT", "GPUS", "FREE", "PODS")

Row = Sequence[Text]


def lines(view: LedgerView, *, wide: bool = False) -> list[Text]:
    """Return lines of any length: headings, nodes, GPUs and their pods, then waiting pods."""
    rows = [row for node in view.nodes for row in _rows(node, wide=wide)]
    drawn = table(WIDE_HEADINGS if wide else HEADINGS, rows)
    return [*(drawn or [Text("no GPUs to show")]), *map(_waiting, view.backlog)]


def lines_by_node(view: LedgerView) -> list[Text]:
    """Return a line for each node instead of each GPU, for a ledger that is longer than the screen."""
    return [*table(BY_NODE, list(map(_node_row, view.nodes))), *map(_waiting, view.backlog)]


def total(view: LedgerView) -> Text:
    """Return the line with the sums of what is shown."""
    return Text(f"total: {_free(view.nodes)}, on {_counted(view)}", "bold")


def _counted(view: LedgerView) -> str:
    gpus = sum(isinstance(gpu.unit, Gpu) for node in view.nodes for gpu in node.gpus)
    nodes = "1 node" if len(view.nodes) == 1 else f"{len(view.nodes)} nodes"
    return f"{gpus} GPUs of {nodes}" if gpus else nodes


def _free(nodes: Iterable[NodeView]) -> str:
    """Return the sums of slices, and those of MIG instances, whose sizes differ."""
    gpus = [gpu for node in nodes for gpu in node.gpus]
    slices = [gpu for gpu in gpus if not isinstance(gpu.unit, Profile)]
    instances = [gpu for gpu in gpus if isinstance(gpu.unit, Profile)]
    found = []
    for what, counted in (("slices", slices), ("MIG instances", instances)):
        if counted:
            sums = f"{sum(gpu.free for gpu in counted)} of {sum(gpu.capacity for gpu in counted)}"
            found.append(f"{sums} {what} free")
    return " and ".join(found) or "nothing"


def _node_row(node: NodeView) -> Row:
    pods = {(share.namespace, share.name) for gpu in node.gpus for share in gpu.shares}
    more = sum(gpu.unlisted.count for gpu in node.gpus if gpu.unlisted is not None)
    held = f"{len(pods)}{f' and {more} more' if more else ''}"
    gpus = sum(isinstance(gpu.unit, Gpu) for gpu in node.gpus)
    name = _short_node(node)
    return [name, Text(printable(node.product or "?")), Text(str(gpus)), Text(_free([node])), Text(held)]


def _rows(node: NodeView, *, wide: bool) -> Iterator[Row]:
    for gpu in node.gpus:
        index = gpu.name if wide else _number(node, gpu)
        yield [
            *(_wide_node(node, gpu) if wide else [_short_node(node)]),
            Text(f"{index}{' cordoned' if gpu.cordoned else ''}"),
            _slices(gpu),
            Text(f"{gpu.free} of {gpu.capacity}"),
            _shares(gpu, wide=wide),
        ]


def _short_node(node: NodeView) -> Text:
    name = Text(shortened(node.name, MAX_POD_NAME))
    if not node.usable:
        name.append(" not usable", "red")
    if node.gpu_mib is None and all(gpu.memory_mib is None for gpu in node.gpus):
        name.append(" no memory label", "red")
    return name


def _number(node: NodeView, gpu: GpuView) -> str:
    """Return the GPU's number, with the MiB of its card if the node's label has another value."""
    is_as_said = gpu.memory_mib in {None, node.gpu_mib}
    return gpu.name if is_as_said else f"{gpu.name} of {gpu.memory_mib} MiB"


def _wide_node(node: NodeView, gpu: GpuView) -> list[Text]:
    state = Text("usable") if node.usable else Text("not usable", "red")
    mib = gpu.memory_mib if gpu.memory_mib is not None else node.gpu_mib
    memory = Text("no label", "red") if mib is None else Text(str(mib))
    return [Text(printable(node.name)), Text(printable(gpu.model or node.product or "?")), memory, state]


def _slices(gpu: GpuView) -> Text:
    total = max(1, gpu.capacity, gpu.used)
    drawn, left = Text(), gpu.capacity
    shares = [(share.slices, share.kind) for share in gpu.shares]
    if gpu.unlisted is not None:
        rest = gpu.unlisted
        shares += [(rest.held, "holder"), (rest.used - rest.held, "promised")]
    for slices, kind in shares:
        within = max(0, min(slices, left))
        blocks = HELD * _scaled(within, total) + OVER * _scaled(slices - within, total)
        drawn.append(blocks, style=STYLES[kind])
        left -= slices
    return drawn.append(FREE * _scaled(gpu.unallocated, total), style="dim")


def _scaled(slices: int, total: int) -> int:
    if total <= MAX_BLOCKS:
        return slices
    return max(bool(slices), slices * MAX_BLOCKS // total)


def _shares(gpu: GpuView, *, wide: bool) -> Text:
    cut = printable if wide else lambda name: shortened(name, MAX_POD_NAME)
    held = [f"{printable(share.namespace)}/{cut(share.name)}: {share.slices}" for share in gpu.shares]
    if gpu.unlisted is not None:
        held.append(f"and {gpu.unlisted.count} more: {gpu.unlisted.used}")
    return Text(", ".join(held))


def _waiting(waiting: PendingView) -> Text:
    units = ", ".join([unit_name(unit_of(index)) for index in waiting.indices])
    where = f"GPU {units}" if units else "any GPU"
    pod = f"{printable(waiting.namespace)}/{printable(waiting.name)}"
    return Text(f"waits: {pod} for {waiting.slices} of {where}", style="yellow")


def table(headings: Sequence[str], rows: Sequence[Row]) -> list[Text]:
    """Return rows as lines under headings; each column except the last is as wide as its longest text."""
    if not rows:
        return []
    every = [[Text(heading, "bold") for heading in headings], *rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*every, strict=True)]
    return [_line(row, widths) for row in every]


def _line(row: Row, widths: Sequence[int]) -> Text:
    line = Text(no_wrap=True)
    for cell, width in zip(row[:-1], widths, strict=False):
        line.append_text(cell).append(" " * (width - cell.cell_len + 1))
    return line.append_text(row[-1])
