"""Prints untrusted text as lines for a terminal: without control characters, and cut to the available width.

A name, a label or an error text may contain escape sequences that move the cursor, rename the window or
reverse text. All output of commands goes through here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import typer

from policies.model.problems import printable


def say(text: str, *, err: bool = False) -> None:
    """Print lines; characters that are not printable are escaped."""
    typer.echo("\n".join(map(printable, text.split("\n"))), err=err)


def say_in(colour: str, text: str) -> None:
    """Print a line in a colour, as `say_drawn` does."""
    say_drawn(typer.style(printable(text), fg=colour))


def say_drawn(text: str) -> None:
    """Print lines of `table` with their colours, if the output is a terminal and NO_COLOR is not set."""
    wanted = True if os.environ.get("FORCE_COLOR") else None
    typer.echo(text, color=False if os.environ.get("NO_COLOR") else wanted)


def say_json(items: Sequence[object]) -> None:
    """Print facts for scripts: an indented list, in ASCII, so that every encoding can carry it."""
    say(json.dumps(facts(items), indent=2))


def facts(value: object) -> Any:
    """Return a value as in JSON: fields of structs and dataclasses in camelCase, mappings unchanged."""
    if isinstance(value, msgspec.Struct):
        named = [(each.encode_name, each.name) for each in msgspec.structs.fields(value)]
        return {camel(shown): facts(getattr(value, name)) for shown, name in named}
    if is_dataclass(value):
        return {camel(field.name): facts(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): facts(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [facts(each) for each in value]
    return msgspec.to_builtins(value)


def camel(name: str) -> str:
    """Return the key in JSON of a field."""
    first, *rest = name.split("_")
    return first + "".join("MiB" if each == "mib" else each[:1].upper() + each[1:] for each in rest)


def rfc3339(seconds: float | None) -> str | None:
    """Return Unix time as text, in whole seconds; None for none."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None


Cell = str | Sequence[tuple[str, str]]
"""A text, or texts with their colours."""


def table(rows: Sequence[Sequence[Cell]], width: int | None = None) -> str:
    """Return rows as lines; each column except the last is as wide as its longest text.

    Args:
        rows: cells, of which the last of each row has no colour.
        width: columns to which the last cells are cut; None for any number.
    """
    *widths, _ = [max(len(_plain(cell)) for cell in column) for column in zip(*rows, strict=True)]
    room = None if width is None else max(1, width - sum(widths) - 2 * len(widths))
    lines = []
    for *cells, last in rows:
        pairs = zip(cells, widths, strict=True)
        padded = [_drawn(cell) + " " * (wide - len(_plain(cell))) for cell, wide in pairs]
        text = _plain(last)
        padded.append(text if room is None or len(text) <= room else f"{text[: room - 1]}…")
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _parts(cell: Cell) -> Sequence[tuple[str, str]]:
    """Return the texts of a cell, without control characters, with their colours."""
    parts = [(cell, "")] if isinstance(cell, str) else cell
    return [(printable(text), colour) for text, colour in parts if text]


def _plain(cell: Cell) -> str:
    return "".join([text for text, _ in _parts(cell)])


def _drawn(cell: Cell) -> str:
    return "".join([typer.style(text, fg=colour) if colour else text for text, colour in _parts(cell)])


def shortened(name: str, most: int) -> str:
    """Cut a name in its middle, since the end distinguishes pods of the same owner."""
    name = printable(name)
    if len(name) <= most:
        return name
    head = (most - 1) // 3
    return f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"
