"""The parts of a policy set, each with its place in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path as FilePath
from typing import TypeVar

from policies.loading.extension import EXTENDS, extended
from policies.loading.strict_yaml import Document, read_documents
from policies.loading.validation import validate
from policies.model.problems import MAX_PROBLEMS, Path, PolicyError, Problem
from policies.model.schema import EXTENSIBLE, Limiter, Policy, QueueEntry, Queues

_Part = TypeVar("_Part", Policy, Limiter, QueueEntry)

MAX_ENTRIES = 2000
"""Policies, limiters and queues of one set."""
LOCK_FILE = "second-lock"
"""File next to the policies, by the chart: the number of the second lock's tables, from the same values."""
_LOCK_NUMBER = re.compile(rb"[0-9a-f]{8}\n?")
PRESETS_FOLDER = FilePath(__file__).parent.parent / "limiters"


@dataclass(frozen=True, slots=True)
class Source:
    """The place of a part of the model in a file."""

    document: Document
    path: Path = ()

    def line(self, *path: str | int) -> str | None:
        """`file:line` of a key below; None if the file does not set it."""
        line = self.document.lines.get((*self.path, *path))
        return None if line is None else f"{self.document.file}:{line}"

    def problem(self, rule: str, *path: str | int) -> Problem:
        """Return the problem of a value at a key below."""
        return self.document.problem((*self.path, *path), rule)


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts in a set of files, by name."""

    policies: Mapping[str, tuple[Policy, Source]]
    limiters: Mapping[str, tuple[Limiter, Source]]
    queues: Mapping[str, tuple[QueueEntry, Source]]
    """By the queue's name as in the file."""
    base_templates: Sequence[Source] = ()
    """Templates of the open agent chart, which apply to all its queues."""
    lock_number: str = ""
    """Number of the second lock's tables; empty without the chart."""


@cache
def presets() -> Mapping[str, tuple[Limiter, Source]]:
    """Limiters that ship with the product, by name."""
    files = sorted(PRESETS_FOLDER.glob("*.yaml"))
    documents = [d for file in files for d in read_documents(f"limiters/{file.name}", file.read_bytes())]
    return _collect(documents, {}).limiters


def read_parts(files: Mapping[str, bytes]) -> Parts:
    """Read and validate files, given as name to content.

    Raises:
        PolicyError: with every problem of every file.
    """
    documents: list[Document] = []
    problems: list[Problem] = []
    for name, content in sorted(files.items()):
        if name == LOCK_FILE:
            problems += _lock_problems(content)
            continue
        try:
            documents += (found := read_documents(name, content))
        except PolicyError as error:
            problems += error.problems
        else:
            problems += (
                [] if found else [Problem(name, 0, "", "is empty: delete it, or write a policy into it")]
            )
    try:
        parts = parts_of(documents)
    except PolicyError as error:
        raise PolicyError([*problems, *error.problems]) from None
    if problems:
        raise PolicyError(problems)
    return replace(parts, lock_number=files.get(LOCK_FILE, b"").decode().strip())


def parts_of(documents: Sequence[Document]) -> Parts:
    """Validate documents of policies, limiters and queues.

    Raises:
        PolicyError: with every problem of every document.
    """
    if problem := _size_problem(documents):
        raise PolicyError([problem])
    return _collect(documents, presets())


def _lock_problems(content: bytes) -> list[Problem]:
    if _LOCK_NUMBER.fullmatch(content):
        return []
    return [Problem(LOCK_FILE, 0, "", "must be 8 hexadecimal digits, as the chart writes them")]


def _size_problem(documents: Sequence[Document]) -> Problem | None:
    """Return the problem of too many policies, limiters and queues, before any of them is built."""
    found = 0
    for document in documents:
        queues = document.data.get("queues") if isinstance(document.data, dict) else None
        found += len(queues) if isinstance(queues, dict) else 1
    if found <= MAX_ENTRIES:
        return None
    rule = f"{found} policies, limiters and queues are more than the maximum of {MAX_ENTRIES}"
    return Problem(".", 0, "", f"{rule}: name only queues that differ from their namespace's policy")


def _collect(documents: Sequence[Document], limiters: Mapping[str, tuple[Limiter, Source]]) -> Parts:
    """Sort documents by kind and name. The problem of a duplicate name states both places."""
    collector = _Collector()
    for document in documents:
        collector.add(document)
    if collector.problems:
        raise PolicyError(collector.problems)
    return Parts(
        collector.policies, {**limiters, **collector.limiters}, collector.queues, collector.base_templates
    )


class _Collector:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.policies: dict[str, tuple[Policy, Source]] = {}
        self.limiters: dict[str, tuple[Limiter, Source]] = {}
        self.queues: dict[str, tuple[QueueEntry, Source]] = {}
        self.base_templates: list[Source] = []

    def add(self, document: Document) -> None:
        """Add a document or its problems; after MAX_PROBLEMS, do nothing."""
        if len(self.problems) >= MAX_PROBLEMS:
            return
        try:
            document = _with_preset(document)
            part = validate(document)
        except PolicyError as error:
            self.problems += error.problems
            return
        if isinstance(part, Queues):
            if part.base_pod_template is not None:
                self.base_templates.append(Source(document, ("basePodTemplate",)))
            for name, entry in part.queues.items():
                self._put(self.queues, name, entry, Source(document, ("queues", name)))
        elif isinstance(part, Policy):
            self._put(self.policies, part.name, part, Source(document))
        else:
            self._put(self.limiters, part.name, part, Source(document))

    def _put(self, known: dict[str, tuple[_Part, Source]], name: str, part: _Part, source: Source) -> None:
        if name in known:
            first = known[name][1]
            place = first.line("name") or first.line()
            self.problems.append(source.problem(f'"{name}" is used at {place}: names must be unique'))
        else:
            known[name] = (part, source)


def _with_preset(document: Document) -> Document:
    """Return the document with the keys of its preset; validation reports an unknown preset."""
    data = document.data
    if not isinstance(data, dict) or data.get("kind") != "Limiter" or data.get(EXTENDS) not in EXTENSIBLE:
        return document
    return extended(document, presets()[data[EXTENDS]][1].document)
