"""Every place in a review that a decision can read, and reviews that differ from another in one of them."""

import json
import typing
from functools import cache

import msgspec

from tests.webhook.support.field_values import GONE, Also
from webhook.admission.pod import Pod
from webhook.admission_review import _Header


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


RAW = ("_Header.object", "_Header.user_info")
"""JSON text, of which other structs say what is read."""
FIELDS = {name: field for name, field in fields_of(Pod, _Header).items() if name not in RAW}


@cache
def inner_kinds(kind):
    """By field that holds structs, as JSON calls it: their kinds."""
    found = [(field.encode_name, kinds(field.type)) for field in msgspec.structs.fields(kind)]
    return [(name, inner) for name, inner in found if inner]


def places(found, kind, path=()):
    """Where in a JSON object of a kind the objects of every kind are: kind and path."""
    yield kind, path
    for name, inside in inner_kinds(kind):
        inner = found.get(name)
        for inner_kind in inside:
            if isinstance(inner, dict):
                yield from places(inner, inner_kind, (*path, name))
            for at, each in enumerate(inner if isinstance(inner, list) else ()):
                yield from places(each, inner_kind, (*path, name, at))


def places_in(review):
    yield from places(review["request"], _Header, ("request",))
    found, path = review["request"]["object"], ("request", "object")
    yield from places(found, Pod, path)


def changed(review, path, field, value):
    review = json.loads(json.dumps(review))
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
