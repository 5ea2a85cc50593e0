"""Reads YAML and JSON like kubectl, from files that may be hostile: limited in bytes, depth and copies.

Manifests may contain aliases, so their expansion is counted before anything is built: PyYAML's own composer
overflows the C stack if nesting is deep, and nine lines of aliases can expand to a billion values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

MAX_BYTES = 256 * 1024 * 1024
"""Maximum size of one file; of large inventories JSON is read a hundred times faster."""
MAX_DEPTH = 100
MAX_ALIASED = 3 * 1024 * 1024
"""Maximum values and characters to which all aliases of a file expand, as a Kubernetes object has no more
bytes."""

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class UnusableTextError(ValueError):
    """A text that is neither YAML nor JSON, or too large; says what is wrong and what to do."""


class _Loader(yaml.CSafeLoader):
    """YAML as in Kubernetes: a date stays text, and so does 22:22 (in YAML 1.1 a number in base 60)."""


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | float | str:
    """Return a number, but a number in base 60 as text: parsing it would cost the square of its length."""
    text = str(loader.construct_scalar(node))
    if ":" in text:
        return text
    return loader.construct_yaml_int(node) if node.tag.endswith("int") else loader.construct_yaml_float(node)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
for _tag in _NUMBERS:
    _Loader.add_constructor(_tag, _number)


def read_documents(content: bytes) -> list[Any]:
    """Read every document of a file.

    Raises:
        UnusableTextError: it is not text, neither YAML nor JSON, or too large or too deep.
    """
    if len(content) > MAX_BYTES:
        raise UnusableTextError(f"is larger than {MAX_BYTES // 1024**2} MiB: split it")
    text = _text(content)
    if text.lstrip()[:1] == "{":
        try:
            return [msgspec.json.decode(text)]
        except (msgspec.DecodeError, RecursionError):
            pass  # YAML flow style, or invalid JSON, which is reported below
    try:
        _check_size(text)
        return list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, UnusableTextError):
            raise
        # PyYAML does not wrap errors of values with an explicit tag, such as `!!int x`.
        raise UnusableTextError(f"is neither YAML nor JSON: {_first_line(error)}") from None


def depth(value: Any) -> int:
    """Return the nesting depth of a value, without recursion."""
    deepest, level = 0, [value]
    while level := [part for each in level for part in _parts(each)]:
        deepest += 1
    return deepest


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnusableTextError("is not UTF-8 text: write it as UTF-8") from None


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _check_size(text: str) -> None:
    """Count values and characters, with aliases written out, before anything is built of a text.

    Raises:
        UnusableTextError: it is nested too deeply, or its aliases expand to too much.
    """
    total = aliased = 0
    of_anchor: dict[str | None, int] = {}
    opened: list[tuple[str | None, int]] = []
    """Anchor of each open mapping and list, and the total before it."""
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.ScalarEvent):
            of_anchor[event.anchor] = 1 + len(event.value)
            total += 1 + len(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(opened) >= MAX_DEPTH:
                raise UnusableTextError(f"is nested more than {MAX_DEPTH} deep: no Kubernetes object is")
            opened.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            of_anchor[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            if any(event.anchor == name for name, _ in opened):
                rule = f"holds *{event.anchor} within &{event.anchor}, which has no end: write it out"
                raise UnusableTextError(rule)
            total += of_anchor.get(event.anchor, 0)
            aliased += of_anchor.get(event.anchor, 0)
        if aliased > MAX_ALIASED:
            raise UnusableTextError("has aliases that expand to more than 3 MiB: write the values out")
