"""Texts that may mean something to a rule, read off the product's own constants and off the tests' values."""

from __future__ import annotations

import enum
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import kube
import modes
import policies.model
import webhook.admission
import webhook.patch_cache
from tests.webhook.support.field_values import VALUES, Also
from tests.webhook.support.mutations import FIELDS

PACKAGES = (kube, modes, policies.model, webhook.admission, webhook.patch_cache)
LONGEST = 80
"""Characters of a word."""
MOST_KEYS = 100
"""Of a map whose keys mean something; longer ones only count."""
SIGNS = "a0*?[],;:=.-_/\\\"'% {}()|+^$@\u00e9\u2028\x00\n"
UNITS = (*SIGNS, "a*", "*a", "../", "//", "a,", "=1,", "0,", "#,", "#")
"""What long texts are made of; `#` is the number of the repetition."""
ODD_VALUES: tuple[Any, ...] = (None, True, 0, -1, 10**20, 1.5, "", "x", [], {}, [[]], {"name": "x"}, ["x"])


@cache
def words() -> tuple[str, ...]:
    """Names and values that the product's modules hold as constants."""
    found: set[str] = set()
    for package in PACKAGES:
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            for name, value in vars(module).items():
                if not name.startswith("__"):
                    found |= set(_texts(value))
    return tuple(sorted(each for each in found if _is_word(each)))


def _is_word(text: str) -> bool:
    return 0 < len(text) <= LONGEST and not text.isdigit() and set(text).isdisjoint(" \n`")


@cache
def values_of_fields() -> dict[str, tuple[Any, ...]]:
    """By the name that JSON has for a field: values that the tests list for it."""
    found = defaultdict(list)
    for name, values in VALUES.items():
        found[FIELDS[name].encode_name] += values
    return {name: tuple(values) for name, values in found.items()}


def values_of_keys(bases: Iterable[Any]) -> dict[str, tuple[Any, ...]]:
    """By the key of a map, as an annotation's: the texts and numbers that stand there anywhere."""
    found: dict[str, dict[Any, None]] = defaultdict(dict)
    for _, key, value in _members(bases):
        if not isinstance(value, dict | list | Also):
            found[key][value] = None
    return {key: tuple(values) for key, values in sorted(found.items())}


def keys_of_maps(bases: Iterable[Any]) -> dict[str, tuple[str, ...]]:
    """By the name of a map, as `annotations`: the keys that stand there anywhere."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for name, key, _ in _members(bases):
        found[name][key] = None
    return {name: tuple(keys) for name, keys in sorted(found.items())}


def _members(bases: Iterable[Any]) -> Iterator[tuple[str, str, Any]]:
    """Everything in reviews and in the tests' values: its map's name, its key, and the value."""
    listed = ((FIELDS[name].encode_name, value) for name, values in VALUES.items() for value in values)
    waiting: list[tuple[str, Any]] = [*(("", each) for each in bases), *listed]
    while waiting:
        name, one = waiting.pop()
        if isinstance(one, Also):
            one = one.members
        if isinstance(one, dict) and len(one) <= MOST_KEYS:
            for key, value in one.items():
                if isinstance(key, str):
                    yield name, key, value
                    waiting.append((key, value))
        elif isinstance(one, list):
            waiting += [(name, each) for each in one[:MOST_KEYS]]


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield str(value)
    elif isinstance(value, type) and issubclass(value, enum.Enum):
        yield from (str(each.value) for each in value)
    elif isinstance(value, dict) and depth < 3:
        for key, each in value.items():
            yield from _texts(key, depth + 1)
            yield from _texts(each, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset) and depth < 3:
        for each in value:
            yield from _texts(each, depth + 1)
