"""A strict subset of YAML: plain data with line numbers, or one problem with its place.

Not allowed: tags, anchors and aliases (so no alias bombs), duplicate keys, keys that are not text, deep
nesting and large files. A number with a decimal point keeps its digits as a Decimal, never as a float.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    documents: list[Document] = []
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                first = next(events)
                builder = _Builder(file, events, {(): _line(first)})
                documents.append(Document(file, builder.value(first, ()), builder.lines))
    except yaml.MarkedYAMLError as error:
        line = min(error.problem_mark.line + 1 if error.problem_mark else 1, len(text.splitlines()))
        rule = f"is not YAML: {error.problem}{_tab_hint(text, line)}"
        raise PolicyError([Problem(file, line, "", rule)]) from None
    except yaml.YAMLError as error:
        rule = f"is not YAML: {str(error).splitlines()[0]}"
        raise PolicyError([Problem(file, 0, "", rule)]) from None
    return [document for document in documents if document.data is not None]


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


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds one document from the events of the parser, which does not recurse as PyYAML's composer does."""

    file: str
    events: Iterator[yaml.Event]
    lines: dict[Path, int]

    def value(self, event: yaml.Event, path: Path) -> Any:
        """Return the value that begins with an event, and remember the lines of what is in it."""
        if (anchor := getattr(event, "anchor", None)) is not None:
            rule = f"anchors and aliases are not supported ({anchor}): write out the value"
            raise _error(self.file, event, rule)
        if (tag := getattr(event, "tag", None)) is not None:
            raise _error(self.file, event, f"tags are not supported ({tag}): write the plain value")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if len(path) >= MAX_DEPTH:
            raise _error(self.file, event, f"is nested more than {MAX_DEPTH} deep")
        return self._mapping(path) if isinstance(event, yaml.MappingStartEvent) else self._list(path)

    def _list(self, path: Path) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            at = (*path, len(found))
            self.lines[at] = _line(event)
            found.append(self.value(event, at))
        return found

    def _mapping(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                raise _error(self.file, event, "a key must be text, not a list or a mapping")
            key = self.value(event, path)
            if isinstance(event, yaml.ScalarEvent) and not isinstance(key, str):
                raise _error(self.file, event, f'a key must be text: quote it, "{event.value}"')
            if key in found:
                rule = f"is duplicate (first on line {self.lines[(*path, key)]}): keep one"
                raise _error(self.file, event, f"key {quoted(key)} {rule}")
            self.lines[(*path, key)] = _line(event)
            found[key] = self.value(next(self.events), (*path, key))
        return found

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if event.style:  # quoted, or a block
            return text
        if text in _WORDS:
            return _WORDS[text]
        if len(text.lstrip("+-")) > MAX_DIGITS and _DECIMAL.fullmatch(text):
            rule = f"a number may have {MAX_DIGITS} digits; quote {quoted(text)} if it is text"
            raise _error(self.file, event, rule)
        if _INTEGER.fullmatch(text):
            return int(text)
        return Decimal(text) if _DECIMAL.fullmatch(text) and not text.isdigit() else text


def _line(found: yaml.Event) -> int:
    return found.start_mark.line + 1 if found.start_mark else 1


def _error(file: str, found: yaml.Event, rule: str) -> PolicyError:
    return PolicyError([Problem(file, _line(found), "", rule)])
