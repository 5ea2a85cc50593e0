"""Prints untrusted text as lines for a terminal: without control characters, and cut to the available width.

It is separate from `terminal`, because the serving processes print too, but do not load rich.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import typer

from policies.model.problems import printable


def say(text: str, *, err: bool = False) -> None:
    """Print lines; characters that are not printable are escaped."""
    typer.echo("\n".join(map(printable, text.split("\n"))), err=err)


def say_in(colour: str, text: str) -> None:
    """Print a line in a colour, if the output is a terminal and NO_COLOR is not set."""
    typer.echo(typer.style(printable(text), fg=colour), color=False if os.environ.get("NO_COLOR") else None)


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
