"""Turns a YAML document into a part of the model, or into problems in an admin's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from policies.loading.strict_yaml import Document
from policies.model.limiters import Limiter
from policies.model.problems import Path, PolicyError, Problem, did_you_mean, dotted, quoted
from policies.model.schema import KINDS, Policy, Queues

RULES: Mapping[str, str] = {
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "greater_than_equal": "must be at least {ge}",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be one of {allowed}",
    "missing": "key is missing",
    "model_type": "must be a mapping",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "too_long": "must list at most {max_length}",
    "too_short": "must list at least {min_length}",
    "value_error": "{error}",
}
"""Rules by pydantic's types of errors, and the values that they name."""
_BARE = {"bool_type": re.compile("true|false"), "int_type": re.compile("-?[0-9]+")}
NAME = "NAME"


def validate(document: Document) -> Policy | Limiter | Queues:
    """Build the model of a document.

    Raises:
        PolicyError: with every key that breaks a rule.
    """
    kind = _kind(document)
    try:
        return kind.model_validate(document.data)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=True)
        raise PolicyError(_problem(document, kind, details) for details in found) from None


def _kind(document: Document) -> type[Policy | Limiter | Queues]:
    if not isinstance(document.data, dict):
        raise PolicyError([document.problem((), "must be a mapping with the key kind")])
    kind = document.data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        rule = f"{quoted(kind)} is not one of {', '.join(KINDS)}{did_you_mean(str(kind), KINDS)}"
        missing = "key is missing: write kind: Policy, Limiter or Queues"
        raise PolicyError([document.problem(("kind",), rule if kind is not None else missing)])
    return KINDS[kind]


def _problem(document: Document, kind: type[BaseModel], details: ErrorDetails) -> Problem:
    path = tuple(part for part in details["loc"] if part != "[key]")
    is_unknown = details["type"] == "extra_forbidden"
    return document.problem(path, f"unknown key{_hint(kind, path)}" if is_unknown else _rule(details))


def _rule(details: ErrorDetails) -> str:
    value, what = details["input"], details["type"]
    expected = str(details.get("ctx", {}).get("expected", ""))  # of a choice, such as "'a', 'b' or 'c'"
    allowed = expected.replace("'", "").replace(" or ", ", ").split(", ") if expected else []
    names = details.get("ctx", {}) | {"allowed": ", ".join(allowed)}
    wanted = RULES[what].format_map(names) if what in RULES else details["msg"]
    if isinstance(value, (dict, list)) or value is None:
        return wanted
    shown = quoted(value) if isinstance(value, str) else quoted(value)[1:-1]
    if what == "string_type":
        return f"{shown} must be quoted: {quoted(value)}"
    if isinstance(value, str) and (value in allowed or (what in _BARE and _BARE[what].fullmatch(value))):
        return f"{shown} {wanted}, without quotes"
    return f"{shown} {wanted}{did_you_mean(value, allowed) if isinstance(value, str) else ''}"


def _hint(kind: type[BaseModel], path: Path) -> str:
    """Return where below a key of this name belongs, or which key here is meant, or where else it belongs."""
    *place, word = path
    here = (key for *parts, key in _keys(kind) if len(parts) == len(place) and all(map(_fits, parts, place)))
    named = [tuple(parts) for *parts, key in _keys(kind) if key == word]
    below = [at for at in named if len(at) > len(place) and 0 not in at and all(map(_fits, at, place))]
    meant = "" if below else did_you_mean(str(word), map(str, here))
    places = (f"under {dotted(parts)}" if parts else "at the top level" for parts in below or named)
    return meant or next((f": it belongs {each}" for each in places), "")


def _fits(part: str | int, given: str | int) -> bool:
    return part in {given, NAME} or isinstance(part, int)


@cache
def _keys(model: type[BaseModel]) -> Sequence[Path]:
    """Return the paths of all keys of a model; NAME stands for any key of a mapping, 0 for any list item."""
    found: list[Path] = []
    inside: Mapping[Any, Path] = {dict: (NAME,), list: (0,)}
    for name, field in model.model_fields.items():
        path: Path = (field.alias or name,)
        found.append(path)
        path += inside.get(get_origin(field.annotation), ())
        found += [path + below for part in _models_in(field.annotation) for below in _keys(part)]
    return found


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
