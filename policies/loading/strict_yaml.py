"""A strict subset of YAML: plain data with line numbers, or one problem with its place.

Not allowed: tags, anchors and aliases (so no alias bombs), duplicate keys, keys that are not text, deep
nesting and large files. A number with a decimal point keeps its digits as a Decimal, never as a float.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import yaml

from policies.model.problems import Path, PolicyError, Problem, dotted, quoted

MAX_BYTES = 1024 * 1024
"""Maximum size of one file: etcd stores no ConfigMap of more than 1 MiB."""
MAX_DEPTH = 32
MAX_DIGITS = 18

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document as plain data, with line numbers."""

    file: str
    data: Any
    lines: Mapping[Path, int]
    """Line, from 1, of every key and list item."""
    above: Path = ()
    """Keys of the file above this document, if it is a part of one."""

    def part(self, *path: str) -> Document:
        """Return the value at a path as a document of its own, with its lines in the file."""
        data = self.data
        for key in path:
            data = data[key]
        lines = {at[len(path) :]: line for at, line in self.lines.items() if at[: len(path)] == path}
        return Document(self.file, data, lines, (*self.above, *path))

    def line_of(self, path: Path) -> int:
        """Return the line of a value, or of the nearest parent that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines[path]

    def problem(self, path: Path, rule: str) -> Problem:
        """Return the problem of the value at `path`."""
        return Problem(self.file, self.line_of(path), dotted((*self.above, *path)), rule)


def read_documents(file: str, content: bytes) -> list[Document]:
    """Read every document of a file; empty documents are left out.

    Raises:
        PolicyError: with the one problem at which reading stopped.
    """
    text = _decode(file, content)
    try:
        return list(_documents(file, yaml.parse(text, Loader=yaml.CSafeLoader)))
    except yaml.MarkedYAMLError as error:
        line = min(error.problem_mark.line + 1 if error.problem_mark else 1, len(text.splitlines()))
        rule = f"is not YAML: {error.problem}{_tab_hint(text, line)}"
        raise PolicyError([Problem(file, line, "", rule)]) from None
    except yaml.YAMLError as error:
        rule = f"is not YAML: {str(error).splitlines()[0]}"
        raise PolicyError([Problem(file, 0, "", rule)]) from None


def _decode(file: str, content: bytes) -> str:
    if len(content) > MAX_BYTES:
        rule = f"is larger than {MAX_BYTES} bytes, the maximum of a ConfigMap"
        raise PolicyError([Problem(file, 0, "", rule)])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise PolicyError([Problem(file, line, "", "is not UTF-8 text")]) from None


def _tab_hint(text: str, line: int) -> str:
    content = text.splitlines()[line - 1]
    indent = content.removesuffix(content.lstrip())
    return "; indent YAML with spaces, not tabs" if "\t" in indent else ""


@dataclass(slots=True)
class _Open:
    """A mapping or list that has not ended yet."""

    path: Path
    value: dict[str, Any] | list[Any]
    key: str | None = None

    def place(self, line: int, lines: dict[Path, int]) -> Path:
        """Return the path of the value that starts now."""
        if isinstance(self.value, list):
            path = (*self.path, len(self.value))
            lines[path] = line
            return path
        return (*self.path, self.key or "")

    def put(self, item: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(item)
        else:
            self.value[self.key or ""] = item
            self.key = None


@dataclass(slots=True)
class _Builder:
    """Builds one document from the parser's events."""

    file: str
    data: Any = None
    lines: dict[Path, int] = field(default_factory=lambda: {(): 1})
    stack: list[_Open] = field(default_factory=list)

    def feed(self, event: yaml.Event) -> None:
        self._refuse_tricks(event)
        if isinstance(event, yaml.CollectionEndEvent):
            self.stack.pop()
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._open(event, {})
        elif isinstance(event, yaml.SequenceStartEvent):
            self._open(event, [])

    def _refuse_tricks(self, event: yaml.Event) -> None:
        if (anchor := getattr(event, "anchor", None)) is not None:
            raise self._error(event, f"anchors and aliases are not supported ({anchor}): write out the value")
        if (tag := getattr(event, "tag", None)) is not None:
            raise self._error(event, f"tags are not supported ({tag}): write the plain value")

    def _open(self, event: yaml.Event, value: dict[str, Any] | list[Any]) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise self._error(event, f"is nested more than {MAX_DEPTH} deep")
        if self._wants_key():
            raise self._error(event, "a key must be text, not a list or a mapping")
        self.stack.append(_Open(self._put(event, value), value))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if self._wants_key():
            self._key(event)
        else:
            self._put(event, self._value(event))

    def _wants_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None

    def _key(self, event: yaml.ScalarEvent) -> None:
        top, key = self.stack[-1], event.value
        if not isinstance(self._value(event), str):
            raise self._error(event, f'a key must be text: quote it, "{key}"')
        if key in top.value:
            first = self.lines[(*top.path, key)]
            raise self._error(event, f"key {quoted(key)} is duplicate (first on line {first}): keep one")
        top.key = key
        self.lines[(*top.path, key)] = _line(event)

    def _value(self, event: yaml.ScalarEvent) -> Any:
        is_plain, text = event.implicit[0], event.value
        if not is_plain:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if len(text.lstrip("+-")) > MAX_DIGITS and _DECIMAL.fullmatch(text):
            raise self._error(
                event, f"a number may have {MAX_DIGITS} digits; quote {quoted(text)} if it is text"
            )
        if _INTEGER.fullmatch(text):
            return int(text)
        return Decimal(text) if _DECIMAL.fullmatch(text) and not text.isdigit() else text

    def _put(self, event: yaml.Event, item: Any) -> Path:
        line = _line(event)
        if not self.stack:
            self.data, self.lines[()] = item, line
            return ()
        path = self.stack[-1].place(line, self.lines)
        self.stack[-1].put(item)
        return path

    def _error(self, event: yaml.Event, rule: str) -> PolicyError:
        return PolicyError([Problem(self.file, _line(event), "", rule)])


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _documents(file: str, events: Iterator[yaml.Event]) -> Iterator[Document]:
    builder = _Builder(file)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            builder = _Builder(file)
        elif isinstance(event, yaml.DocumentEndEvent):
            if builder.data is not None:
                yield Document(file, builder.data, builder.lines)
        else:
            builder.feed(event)
