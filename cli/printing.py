"""Prints untrusted text as lines for a terminal: without control characters, and cut to the available width.

It is separate from `terminal`, because the serving processes print too, but do not load rich.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import typer

from policies.model.problems import printable


def say(text: str, *, err: bool = False) -> None:
    """Print lines; characters that are not printable are escaped."""
    typer.echo("\n".join(map(printable, text.split("\n"))), err=err)


def say_json(value: object) -> None:
    """Print a value as indented JSON."""
    say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts as lines; each column except the last is as wide as its longest text."""
    shown = [[printable(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in shown]
    return "\n".join(line.rstrip() for line in lines)


def shortened(name: str, most: int) -> str:
    """Cut a name in its middle, since the end distinguishes pods of the same owner."""
    name = printable(name)
    if len(name) <= most:
        return name
    head = (most - 1) // 3
    return f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"
