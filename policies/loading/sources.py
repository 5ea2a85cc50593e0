"""The parts of a policy set, each with its place in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from modes.registry import CLAIM_MODE
from policies.loading.strict_yaml import Document, read_documents
from policies.loading.validation import validate
from policies.model.limiters import EXTENSIBLE, Limiter
from policies.model.problems import Path, PolicyError, Problem
from policies.model.schema import AUTO, Policy, QueueEntry, Queues, stated_mode

LOCK_FILE = "second-lock"
"""File next to the policies, by the chart: the number of the second lock's tables, from the same values."""
_LOCK_NUMBER = re.compile(rb"[0-9a-f]{8}\n?")
EXTENDS = "extends"
OWN_KEYS = ("kind", "name", EXTENDS, "needs", "initContainer")
"""Keys allowed together with `extends`; all others define the limit, and come from the preset."""
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


def read_parts(files: Mapping[str, bytes], *, by_claim: bool = False) -> Parts:
    """Read and validate files, given as name to content; `by_claim` as in `parts_of`.

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
        parts = parts_of(documents, by_claim=by_claim)
    except PolicyError as error:
        raise PolicyError([*problems, *error.problems]) from None
    if problems:
        raise PolicyError(problems)
    return replace(parts, lock_number=files.get(LOCK_FILE, b"").decode().strip())


def _lock_problems(content: bytes) -> list[Problem]:
    if _LOCK_NUMBER.fullmatch(content):
        return []
    return [Problem(LOCK_FILE, 0, "", "must be 8 hexadecimal digits, as the chart writes them")]


def parts_of(documents: Sequence[Document], *, by_claim: bool = False) -> Parts:
    """Validate documents of policies, limiters and queues, and add the presets.

    Args:
        documents: the documents.
        by_claim: whether the mode `auto` means `dra`.

    Raises:
        PolicyError: with every problem of every document.
    """
    return _collect(list(map(_with_claims, documents)) if by_claim else documents, presets())


def _with_claims(document: Document) -> Document:
    """Return a policy that leaves its mode to the chart with the mode of claims."""
    data = document.data
    resources = data.get("resources") or {} if isinstance(data, dict) else None
    if not isinstance(resources, dict) or data.get("kind") != "Policy" or stated_mode(resources) != AUTO:
        return document
    return replace(document, data=data | {"resources": resources | {"mode": CLAIM_MODE}})


def _collect(documents: Sequence[Document], limiters: Mapping[str, tuple[Limiter, Source]]) -> Parts:
    """Sort documents by kind and name. The problem of a duplicate name states both places."""
    problems: list[Problem] = []
    tables: dict[type, dict[str, tuple[Any, Source]]] = {Policy: {}, Limiter: {}, QueueEntry: {}}
    base_templates: list[Source] = []
    for document in documents:
        try:
            whole = _with_preset(document)
            part = validate(whole)
        except PolicyError as error:
            problems += error.problems
            continue
        if isinstance(part, Queues):
            named: list[tuple[str, Any, Source]] = [
                (name, each, Source(whole, ("queues", name))) for name, each in part.queues.items()
            ]
            base_templates += [Source(whole, ("basePodTemplate",))] if part.base_pod_template else []
        else:
            named = [(part.name, part, Source(whole))]
        for name, each, source in named:
            first = tables[type(each)].setdefault(name, (each, source))[1]
            if first is not source:
                place = first.line("name") or first.line()
                problems.append(source.problem(f'"{name}" is used at {place}: names must be unique'))
    if problems:
        raise PolicyError(problems)
    return Parts(tables[Policy], {**limiters, **tables[Limiter]}, tables[QueueEntry], base_templates)


def _with_preset(document: Document) -> Document:
    """Return the document with the missing keys of its preset; validation reports an unknown preset.

    Raises:
        PolicyError: it has a key that only a complete limiter may have.
    """
    own = document.data
    if not isinstance(own, dict) or own.get("kind") != "Limiter" or own.get(EXTENDS) not in EXTENSIBLE:
        return document
    if refused := [key for key in own if key not in OWN_KEYS]:
        rule = f"is not allowed with {EXTENDS}: set only needs and initContainer, or write a complete limiter"
        raise PolicyError(document.problem((key,), rule) for key in refused)
    preset = presets()[own[EXTENDS]][1].document.data
    content, part, whole = {**preset, **own}, own.get("initContainer"), preset["initContainer"]
    if isinstance(part, Mapping):
        content["initContainer"] = {**whole, **part}
        if isinstance(part.get("env"), Mapping):
            content["initContainer"]["env"] = {**whole.get("env", {}), **part["env"]}
    return replace(document, data=content)
