"""A hostile review as what is done to a small one: few words for a body of any size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tests.long.campaign.search.schema import Path, review_field

NUMBER = "99999"
"""Stands for the number of a member, in as many digits as most have, while its bytes are measured."""
ODD_JSON: dict[str, tuple[bytes, bytes, bytes]] = {
    "white space": (b"[", b" ", b"]"),
    "empty lists": (b"[", b"[],", b"0]"),
    "nested lists": (b"", b"[", b""),
    "nested objects": (b"", b'{"a":', b""),
    "digits": (b"1", b"1", b""),
    "a number out of range": (b"1e", b"9", b""),
    "numbers": (b"[", b"1e9,", b"0]"),
    "a member, many times": (b'{"a":0', b',"a":0', b"}"),
    "containers, many times": (b'{"a":0', b',"containers":[{"name":"train"}]', b"}"),
    "escapes": (b'"', b"\\u0061", b'"'),
    "wide characters": (b'"', "\u00e9".encode(), b'"'),
}
"""What the encoder never writes: text before, text that is repeated, text after."""
CLOSING = {b"[": b"]", b'{"a":': b"}"}


@dataclass(frozen=True, slots=True)
class Put:
    """Write a value; `merged` puts the members of a map to those that are there."""

    path: Path
    value: Any
    merged: bool = False

    def apply(self, review: Any, room: int) -> None:
        parent, key = reach(review, self.path)
        value = self.value
        if isinstance(value, dict | list):
            # A copy: what grows later on must not grow here too.
            value = msgspec.json.decode(msgspec.json.encode(value))
        if value is None and self.merged:
            del parent[key]
        elif self.merged:
            parent[key] = {**(parent.get(key) or {}), **value}
        else:
            parent[key] = value


@dataclass(frozen=True, slots=True)
class Copy:
    """Write what stands at one place to another one too."""

    source: Path
    path: Path

    def apply(self, review: Any, room: int) -> None:
        parent, key = reach(review, self.source)
        value = parent[key]
        if self.path[: len(self.source)] == self.source:
            value = msgspec.json.decode(msgspec.json.encode(value))
        parent, key = reach(review, self.path)
        parent[key] = value


@dataclass(frozen=True, slots=True)
class Grow:
    """Add members to a list or a map, or repeat a text, as often as was wanted and as there is room for."""

    path: Path
    count: int
    unit: str
    """Of a text what is repeated, of a map's or a list's text what it is named; `#` becomes a number."""
    value: Any = "1"
    """Of a map what each key has."""
    numbered: str | None = "name"
    """Of a list of objects the text field that differs; None for equal members."""

    def apply(self, review: Any, room: int) -> None:
        parent, key = reach(review, self.path)
        found, before = parent[key], size_of(review)
        model = (found[0] if found else _example(self.path)) if isinstance(found, list) else None
        parent[key] = self._grown(found, model, [NUMBER])
        # Measured, as the place may be part of many others by now.
        grown = size_of(review)
        times = max(0, min(self.count, (room - grown) // max(1, grown - before)))
        parent[key] = self._grown(parent[key], model, range(times))

    def _grown(self, found: Any, model: Any, numbers: Iterable[object]) -> Any:
        texts = (self.unit.replace("#", str(number)) for number in numbers)
        if isinstance(found, str):
            return found + "".join(texts)
        if isinstance(found, dict):
            found |= dict.fromkeys(texts, self.value)
        elif isinstance(found, list):
            found += [self._member(model, text) for text in texts]
        return found

    def _member(self, model: Any, text: str) -> Any:
        if isinstance(model, str):
            return text
        if isinstance(model, dict) and self.numbered is not None:
            return {**model, self.numbered: text}
        return model


@dataclass(frozen=True, slots=True)
class Odd:
    """Write JSON that no encoder writes."""

    path: Path
    name: str
    count: int

    def apply(self, review: Any, room: int) -> None:
        parent, key = reach(review, self.path)
        before, unit, after = ODD_JSON[self.name]
        left = room - size_of(review) - len(before) - len(after)
        times = max(0, min(self.count, left // (len(unit) + len(CLOSING.get(unit, b"")))))
        if unit in CLOSING:
            after = b"0" + CLOSING[unit] * times
        parent[key] = msgspec.Raw(before + unit * times + after)


Edit = Put | Copy | Grow | Odd


@dataclass(frozen=True, slots=True)
class Base:
    """A review to begin with."""

    name: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Genome:
    """What is done to a base, one after the other, and the bytes that it may come to."""

    base: Base
    edits: tuple[Edit, ...]
    size: int

    def body(self) -> bytes | None:
        """Make the review; None if it comes to more bytes. An edit whose place is missing does nothing."""
        review = msgspec.json.decode(self.base.body)
        for edit in self.edits:
            try:
                edit.apply(review, self.size)
                if size_of(review) > self.size:
                    return None
            except (TypeError, AttributeError, KeyError, IndexError, ValueError, RecursionError):
                continue  # another edit has damaged the place
        try:
            body = msgspec.json.encode(review)
        except (TypeError, RecursionError):
            return None
        return body if len(body) <= self.size else None

    def scaled(self, size: int) -> Genome:
        """Return the same for another size, every count grown with it."""
        times = size / self.size
        edits = tuple(
            replace(each, count=max(1, min(size, round(each.count * times))))
            if isinstance(each, Grow | Odd)
            else each
            for each in self.edits
        )
        return replace(self, edits=edits, size=size)

    @property
    def signature(self) -> tuple[object, ...]:
        """What two genomes have in common that are one idea."""
        grown = {each.path for each in self.edits if isinstance(each, Grow | Odd)}
        return (self.base.name, *sorted(grown, key=str))

    def describe(self) -> list[str]:
        """Lines for people."""
        return [f"base: {self.base.name}", *(_line(each) for each in self.edits)]


def size_of(review: Any) -> int:
    """Bytes of a review as it is sent."""
    return len(msgspec.json.encode(review))


def reach(review: Any, path: Path) -> tuple[Any, Any]:
    """Return the parent of a place and its key there; makes what is missing on the way, and the place."""
    field, at = review_field(), review
    for step, after in zip(path, (*path[1:], None), strict=True):
        field = _below(field, step)
        if isinstance(step, int):
            if isinstance(at, list) and not -len(at) <= step < len(at):
                at.append(_missing(field, after))
        elif at.get(step) is None:
            at[step] = _missing(field, after)
        if after is None:
            return at, (min(step, len(at) - 1) if isinstance(step, int) else step)
        at = at[min(step, len(at) - 1)] if isinstance(step, int) else at[step]
    raise KeyError(path)


def _below(field: Any, step: str | int) -> Any:
    return field.at((step,)) if field is not None else None


def _missing(field: Any, after: str | int | None) -> Any:
    if field is not None:
        return field.example()
    return "" if after is None else [] if isinstance(after, int) else {}


def _example(path: Path) -> Any:
    field = review_field().at((*path, 0))
    return "x" if field is None else field.example()


def _line(edit: Edit) -> str:
    parts = [
        f"{name}={text[:60] + '...' if len(text) > 60 else text}"
        for name in edit.__slots__
        if name != "path"
        for text in [repr(getattr(edit, name))]
    ]
    return f"{type(edit).__name__} {'.'.join(map(str, edit.path))} {' '.join(parts)}"


def without(edits: Sequence[Edit], at: int) -> tuple[Edit, ...]:
    """Return all edits but one."""
    return (*edits[:at], *edits[at + 1 :])
