"""Every place in a review that a decision can read, and reviews that differ from another in one of them."""

import copy
import typing

import msgspec

from tests.webhook.field_values import GONE, Also
from webhook.envelope import _Header
from webhook.pod import Pod


def kinds(annotation):
    """The structs that a field's type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return {annotation}
    return {kind for part in typing.get_args(annotation) for kind in kinds(part)}


def fields_of(*roots):
    """Every field of the roots and of whatever structs they hold."""
    seen, found = set(), {}
    waiting = list(roots)
    while waiting:
        kind = waiting.pop()
        if kind not in seen:
            seen.add(kind)
            for field in msgspec.structs.fields(kind):
                found[f"{kind.__name__}.{field.name}"] = field
                waiting += kinds(field.type)
    return found


FIELDS = fields_of(Pod, _Header)


def places(found, kind, path=()):
    """Where in a JSON object of a kind the objects of every kind are: kind and path."""
    yield kind, path
    for field in msgspec.structs.fields(kind):
        inner = found.get(field.encode_name)
        for inner_kind in kinds(field.type):
            if isinstance(inner, dict):
                yield from places(inner, inner_kind, (*path, field.encode_name))
            for at, each in enumerate(inner if isinstance(inner, list) else ()):
                yield from places(each, inner_kind, (*path, field.encode_name, at))


def places_in(review):
    yield from places(review["request"], _Header, ("request",))
    yield from places(review["request"]["object"], Pod, ("request", "object"))


def changed(review, path, field, value):
    review = copy.deepcopy(review)
    parent = review
    for step in path:
        parent = parent[step]
    name = FIELDS[field].encode_name
    if value is GONE:
        parent.pop(name, None)
    elif isinstance(value, Also):
        parent[name] = {**(parent.get(name) or {}), **value.members}
    else:
        parent[name] = value
    return review
