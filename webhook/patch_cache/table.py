"""The table of the cache: what is made of each type of the partial pod.

The fields of a type say how they stand in the cache key (`Keyed`). From them come the code that reads a key
and the JSON of the representative pod. All other fields that the rules read of that part of a pod are decoded
as raw JSON, and a pod that has one of them has no key.
"""

from __future__ import annotations

from collections.abc import Callable
from types import GenericAlias
from typing import Any, NamedTuple, get_type_hints

import msgspec

ABSENT = msgspec.Raw()
Part = tuple[bytes | bool, ...]
"""The values of one part of a pod in a key, in the order of the fields; false if a field is absent."""
_Struct = type[msgspec.Struct]


class Keyed(NamedTuple):
    """How a field is part of the cache's key and of the representative pod."""

    read: str
    """Python expression of its value in the key; `{0}` is the field. The representative pod has the field
    if that value is true."""
    example: Any = None
    """Its JSON in the representative pod; None: the value in the key is that JSON."""


AS_WRITTEN = Keyed('b"" if {0} is ABSENT else bytes({0})')
"""For raw JSON: the patch depends on all of it."""


def if_any(example: Any) -> Keyed:
    """Only whether the field is there and not empty matters."""
    return Keyed("True if {0} else False", example)


class Table:
    """One type of the partial pod."""

    type: _Struct
    """To be decoded: with the other fields that rules read."""
    read: Callable[[Any], Part | None]
    """Returns the values of a part in the key; None if it has a field that only the rules read."""
    names: Callable[[Any], list[str]]
    """Returns the names of parts, without those that have such a field."""

    def __init__(self, partial: _Struct, full: _Struct, *unread: str, **lists: Table) -> None:
        """Complete a type of the partial pod.

        Args:
            partial: the fields that the cache reads.
            full: the fields that rules read.
            unread: fields of `full` that never matter to a pod with a key.
            lists: for fields of `partial` that are lists, the table of their members.
        """
        fields = msgspec.structs.fields(partial)
        listed = {*unread, *(field.name for field in fields)}
        others = [field for field in msgspec.structs.fields(full) if field.name not in listed]
        self.type = _with_others(partial, others, lists)
        hints = get_type_hints(partial, include_extras=True)
        self._keyed = [
            (field.name, field.encode_name, keyed)
            for field in fields
            for keyed in getattr(hints[field.name], "__metadata__", ())
        ]
        has_others = " or ".join(f"part.{each.name} is not ABSENT" for each in others) or "False"
        values = "".join(f"{how.read.format(f'part.{name}')}, " for name, _, how in self._keyed)
        self.read = _compiled(f"lambda part: None if {has_others} else ({values})")
        self.names = _compiled(f"lambda parts: [part.name for part in parts if not ({has_others})]")

    def position(self, name: str) -> int:
        """Return the position of a field's value in a part."""
        return [field for field, _, _ in self._keyed].index(name)

    def example(self, part: Part) -> dict[str, Any]:
        """Return the JSON of a part of the representative pod."""
        return {
            name: msgspec.Raw(value) if isinstance(value, bytes) else keyed.example
            for (_, name, keyed), value in zip(self._keyed, part, strict=True)
            if value
        }


def _with_others(
    partial: _Struct, others: list[msgspec.structs.FieldInfo], lists: dict[str, Table]
) -> _Struct:
    raw = [(each.name, msgspec.Raw, msgspec.field(default=ABSENT, name=each.encode_name)) for each in others]
    typed = [(name, GenericAlias(list, of.type) | None, None) for name, of in lists.items()]
    return msgspec.defstruct(partial.__name__, [*typed, *raw], bases=(partial,), gc=False, rename="camel")


def _compiled(source: str) -> Callable[[Any], Any]:
    """Compile code that is made from a table: a loop over the table would take four times as long."""
    compiled: Callable[[Any], Any] = eval(source, {"ABSENT": ABSENT})  # noqa: S307 made of our own names
    return compiled
