"""YAML and JSON as kubectl reads them, from files that may be hostile: bounded in bytes, depth and copies.

Aliases are allowed in manifests, so what they stand for is counted before anything is built: PyYAML's own
composer crosses the C stack when nesting is deep, and nine lines of aliases can stand for a billion values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

MAX_BYTES = 256 * 1024 * 1024
"""Size cap of one file."""
MAX_YAML_BYTES = 64 * 1024 * 1024
"""YAML is read a hundred times slower than JSON and takes more memory."""
MAX_DEPTH = 100
MAX_ALIASED = 3 * 1024 * 1024
"""Values and characters that all aliases of a file may stand for: a Kubernetes object has no more bytes."""

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class UnusableTextError(ValueError):
    """A text that is neither YAML nor JSON, or more than is read; says what is wrong and what to do."""


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes means it: a date stays text, and so does 22:22 (to YAML 1.1 a number of base 60)."""


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | float | str:
    """Return a number, or the text where YAML 1.1 counts by 60: that costs the square of its length."""
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
        UnusableTextError: it is no text, neither YAML nor JSON, or larger or deeper than is read.
    """
    if len(content) > MAX_BYTES:
        raise UnusableTextError(f"is larger than {MAX_BYTES // 1024**2} MiB: split it")
    text = _text(content)
    if text.lstrip()[:1] == "{":
        try:
            return [msgspec.json.decode(text)]
        except (msgspec.DecodeError, RecursionError):
            pass  # YAML's own braces, or JSON whose mistake is named below
    if len(content) > MAX_YAML_BYTES:
        rule = f"is YAML of more than {MAX_YAML_BYTES // 1024**2} MiB: let kubectl write it with -o json"
        raise UnusableTextError(rule)
    try:
        _check_size(text)
        return list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, UnusableTextError):
            raise
        # A wrong value behind an explicit tag, as in `!!int x`, escapes from PyYAML as it is.
        raise UnusableTextError(f"is neither YAML nor JSON: {_first_line(error)}") from None


def depth(value: Any) -> int:
    """Return how deep a value is nested, without recursion."""
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
    """Walk the events of a text, which are made one by one, before anything is built of them.

    Raises:
        UnusableTextError: it is nested too deep, or its aliases stand for too much.
    """
    size = _Size()
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        size.add(event)


class _Size:
    """Values and characters of a text, with its aliases written out."""

    def __init__(self) -> None:
        self._total = 0
        self._aliased = 0
        self._of_anchor: dict[str | None, int] = {}
        self._open: list[tuple[str | None, int]] = []
        """Anchor of each mapping and list that has not ended, and the total before it."""

    def add(self, event: yaml.Event) -> None:
        """Count one event.

        Raises:
            UnusableTextError: the text is nested too deep, or its aliases stand for too much.
        """
        if isinstance(event, yaml.ScalarEvent):
            self._of_anchor[event.anchor] = 1 + len(event.value)
            self._total += 1 + len(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) >= MAX_DEPTH:
                raise UnusableTextError(f"is nested more than {MAX_DEPTH} deep: no Kubernetes object is")
            self._open.append((event.anchor, self._total))
            self._total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            self._of_anchor[anchor] = self._total - before
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor)

    def _alias(self, anchor: str | None) -> None:
        if any(anchor == name for name, _ in self._open):
            raise UnusableTextError(f"holds *{anchor} within &{anchor}, which has no end: write it out")
        weight = self._of_anchor.get(anchor, 0)
        self._total += weight
        self._aliased += weight
        if self._aliased > MAX_ALIASED:
            raise UnusableTextError("has aliases that stand for more than 3 MiB: write the values out")
