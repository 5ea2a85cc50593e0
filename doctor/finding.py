"""The result of a check: one line for an admin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Level = Literal["ok", "warning", "failed", "skipped"]
MAX_TEXT = 400
"""Characters of a quoted text in one line."""
MAX_NODES_NAMED = 3
CERTIFICATES_ADVICE = "see fraction-injector certs status, and the controller's log"


class Diagnosis(msgspec.Struct, frozen=True):
    """One result of a check."""

    level: Level
    what: str
    advice: str = ""
    """What to do about it; empty if nothing."""
    node: str | None = None
    """The node that it is about; None for the installation."""


class ReportLine(msgspec.Struct, frozen=True):
    """Equal results of a check, printed as one line."""

    check: str
    level: Level
    what: str
    advice: str
    nodes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The result and its nodes, then what to do."""
        text = f"{_named(self.nodes)}: {self.what}" if self.nodes else self.what
        return f"{text} -- {self.advice}" if self.advice else text


def lines_of(check: str, findings: Iterable[Diagnosis]) -> list[ReportLine]:
    """Return one line for all nodes with the same result, in the order of the first."""
    nodes: dict[tuple[Level, str, str], list[str]] = {}
    for each in findings:
        of_these = nodes.setdefault((each.level, cut(each.what), cut(each.advice)), [])
        of_these += [each.node] if each.node is not None else []
    return [ReportLine(check, level, what, advice, tuple(of)) for (level, what, advice), of in nodes.items()]


def cut(text: str) -> str:
    """Return a quoted text as one line of bounded length."""
    text = " ".join(text[: 4 * MAX_TEXT].split())
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def _named(nodes: tuple[str, ...]) -> str:
    named = ", ".join(nodes[:MAX_NODES_NAMED])
    more = len(nodes) - MAX_NODES_NAMED
    return f"node {named}" if len(nodes) == 1 else f"nodes {named}{f' and {more} more' if more > 0 else ''}"
