"""What a check finds: one line for an admin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Level = Literal["ok", "warning", "failed", "skipped"]
MAX_TEXT = 400
"""Characters of what others wrote that are shown in one line."""
MAX_NODES_NAMED = 3
CERTIFICATES_ADVICE = "see fraction-injector certs status, and the controller's log"


class Diagnosis(msgspec.Struct, frozen=True):
    """One thing that a check found."""

    level: Level
    what: str
    advice: str = ""
    """What to do about it; empty where there is nothing to do."""
    node: str | None = None
    """The node that it is found on; None for the installation."""


class ReportLine(msgspec.Struct, frozen=True):
    """Findings that are alike, as they are printed."""

    check: str
    level: Level
    what: str
    advice: str
    nodes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What is found and where, then what to do."""
        text = f"{_named(self.nodes)}: {self.what}" if self.nodes else self.what
        return f"{text} -- {self.advice}" if self.advice else text


def lines_of(check: str, findings: Iterable[Diagnosis]) -> list[ReportLine]:
    """Return one line for all nodes with the same finding, in order of the first."""
    nodes: dict[tuple[Level, str, str], list[str]] = {}
    for each in findings:
        of_these = nodes.setdefault((each.level, cut(each.what), cut(each.advice)), [])
        of_these += [each.node] if each.node is not None else []
    return [ReportLine(check, level, what, advice, tuple(of)) for (level, what, advice), of in nodes.items()]


def cut(text: str) -> str:
    """Return a text that others may have written as one line of bounded length."""
    text = " ".join(text[: 4 * MAX_TEXT].split())
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def _named(nodes: tuple[str, ...]) -> str:
    named = ", ".join(nodes[:MAX_NODES_NAMED])
    more = len(nodes) - MAX_NODES_NAMED
    return f"node {named}" if len(nodes) == 1 else f"nodes {named}{f' and {more} more' if more > 0 else ''}"
