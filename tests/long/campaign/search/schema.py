"""Every field of a review that the webhook decodes, read off its own structs.

A field that somebody adds to a struct is searched from then on.
"""

from __future__ import annotations

import importlib
import pkgutil
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import msgspec

import webhook
from webhook.admission.pod import Job, Pod
from webhook.admission_request import PodObject

Path = tuple[str | int, ...]
ANY_KEY = "*"
"""Stands for the key of a map in a path."""
DEEPEST = 14


@dataclass
class Field:
    """What may stand at one place of a review; types of several structs are put together."""

    is_text: bool = False
    fields: dict[str, Field] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    item: Field | None = None
    member: Field | None = None

    def example(self) -> object:
        """The least value that can be decoded."""
        if self.fields:
            return {name: self.fields[name].example() for name in sorted(self.required)}
        if self.item is not None:
            return []
        if self.member is not None:
            return {}
        return "x" if self.is_text else 1

    def at(self, path: Path) -> Field | None:
        """The field of a path without `ANY_KEY`, if it is known."""
        found: Field | None = self
        for step in path:
            if found is None:
                return None
            found = found.item if isinstance(step, int) else found.fields.get(step, found.member)
        return found


@cache
def review_field() -> Field:
    """Everything below a review, of every struct that one is decoded into."""
    found = Field()
    for kind in _reviews():
        _add(kind, found, 0)
    # What a decider has decoded, and what is decoded of it only if somebody asks.
    request = found.fields["request"]
    for name in ("object", "oldObject"):
        for kind in (Pod, Job):
            _add(kind, request.fields.setdefault(name, Field()), 0)
    return found


@cache
def paths() -> tuple[Path, ...]:
    """The place of every field; of a list its first element, of a map `ANY_KEY`."""
    return tuple(sorted(set(_paths(review_field(), ())) - {()}, key=str))


def _reviews() -> Iterator[type]:
    for info in pkgutil.walk_packages(webhook.__path__, "webhook."):
        module = importlib.import_module(info.name)
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, msgspec.Struct) and _is_review(each):
                yield each


def _is_review(kind: type) -> bool:
    found = Field()
    for each in msgspec.structs.fields(kind):
        if each.encode_name == "request":
            _add(each.type, found, DEEPEST)
    return not found.fields.keys().isdisjoint({"uid", "object"})


def _add(annotation: typing.Any, found: Field, depth: int) -> None:
    """Put a type to what is known of a place."""
    origin = typing.get_origin(annotation) or annotation
    arguments = [each for each in typing.get_args(annotation) if each is not Ellipsis]
    if isinstance(annotation, typing.TypeVar):
        arguments = [annotation.__bound__, *PodObject.__subclasses__()]
    if depth > DEEPEST:
        return
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        _add_fields(origin, found, depth)
    elif origin in (list, tuple, set, frozenset):
        found.item = found.item or Field()
        _add(arguments[0] if arguments else object, found.item, depth + 1)
    elif origin is dict:
        found.member = found.member or Field()
        _add(arguments[1] if arguments else object, found.member, depth + 1)
    else:
        found.is_text = found.is_text or origin is str
        for each in arguments:
            _add(each, found, depth)


def _add_fields(kind: type, found: Field, depth: int) -> None:
    for each in msgspec.structs.fields(kind):
        inner = found.fields.setdefault(each.encode_name, Field())
        if each.required:
            found.required.add(each.encode_name)
        _add(each.type, inner, depth + 1)


def _paths(found: Field, path: Path) -> Iterator[Path]:
    yield path
    for name, inner in found.fields.items():
        yield from _paths(inner, (*path, name))
    if found.item is not None:
        yield from _paths(found.item, (*path, 0))
    if found.member is not None:
        yield from _paths(found.member, (*path, ANY_KEY))
