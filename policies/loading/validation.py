"""Turns a YAML document into a part of the model, or into problems in an admin's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from policies.loading.strict_yaml import Document
from policies.model.limiters import Limiter
from policies.model.problems import Path, PolicyError, Problem, did_you_mean, quoted
from policies.model.schema import KINDS, Policy, Queues


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
    return document.problem(path, _rule(kind, path, details))


def _rule(kind: type[BaseModel], path: Path, details: ErrorDetails) -> str:
    value, what = details["input"], details["type"]
    if what == "missing":
        return "key is missing"
    if what == "extra_forbidden":
        return f"unknown key{did_you_mean(str(path[-1]), set(_keys(kind)))}"
    if isinstance(value, Decimal):
        wanted = "be a whole number" if what == "int_type" else f'be quoted: "{value}"'
        return f"{value} must {wanted}"
    if what == "string_type" and isinstance(value, (int, bool)):
        return f"{quoted(value).strip(chr(34))} must be quoted: {quoted(value)}"
    if isinstance(value, (dict, list)) or value is None:
        return _plain(details)
    allowed = re.findall(r"'([^']*)'", str(details.get("ctx", {}).get("expected", "")))
    return f"{quoted(value)} {_plain(details)}{did_you_mean(str(value), allowed)}"


def _plain(details: ErrorDetails) -> str:
    text = details["msg"].removeprefix("Value error, ")
    return re.sub(r"^(Input|String|List|Dictionary|Value) should ", "should ", text)


def _keys(model: type[BaseModel]) -> Iterator[str]:
    """Yield the keys of a model and of those below it."""
    for name, field in model.model_fields.items():
        yield field.alias or name
        for part in _models_in(field.annotation):
            yield from _keys(part)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
