"""A picture of every GPU's slices, with a letter for each pod."""

from __future__ import annotations

from itertools import cycle
from string import ascii_uppercase

from rich.console import Group
from rich.text import Text

from ledger.ledger import Ledger
from ledger.view import GpuView, LedgerView

COLOURS = ("green", "yellow", "blue", "magenta", "cyan", "red", "bright_green", "bright_blue")
EMPTY = " · "


def picture(ledger: Ledger) -> Group:
    """Draw the nodes of a ledger, one line per GPU, and a legend."""
    view = ledger.view()
    styles = _styles(view)
    lines = [Text("\nWho holds which slices of which GPU", style="bold")]
    for node in view.nodes:
        lines.append(Text(f"  {node.name}  ({node.product}, {node.gpu_mib} MiB each)", style="dim"))
        lines.extend(_gpu(gpu, styles) for gpu in node.gpus)
    lines.append(Text())
    for name, (letter, colour) in styles.items():
        lines.append(Text("    ").append(f" {letter} ", style=f"black on {colour}").append(f" {name}"))
    return Group(*lines, Text())


def _styles(view: LedgerView) -> dict[str, tuple[str, str]]:
    names = dict.fromkeys(share.name for node in view.nodes for gpu in node.gpus for share in gpu.shares)
    return dict(zip(names, zip(cycle(ascii_uppercase), cycle(COLOURS), strict=False), strict=False))


def _gpu(gpu: GpuView, styles: dict[str, tuple[str, str]]) -> Text:
    line = Text(f"    GPU {gpu.index}  ▕")
    for share in gpu.shares:
        letter, colour = styles[share.name]
        line.append(f" {letter} " * share.slices, style=f"black on {colour}")
    line.append(EMPTY * gpu.unallocated, style="dim")
    return line.append(f"▏ {gpu.used} of {gpu.capacity}")
