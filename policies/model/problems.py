"""Problems in an admin's files: file, line, value, rule, and what to write instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""Keys and list positions of a value in a YAML document."""

MAX_VALUE = 60
MAX_KEY = 253
MAX_SHOWN = 100
"""Problems in the text of an error, which goes into a log line and into /readyz."""
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake in one place, or one piece of advice."""

    file: str
    line: int
    """Counted from 1; 0 for a problem of the whole file or folder."""
    path: str
    """Dotted path of the value, such as `fractions."0.5"`; empty for the whole document."""
    rule: str
    """The wrong value, the rule, and what to write instead."""

    def __str__(self) -> str:
        """One printable line in the form of compilers: `default.yaml:12: fractions."0.5": ...`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return printable(": ".join(part for part in (place, self.path, self.rule) if part))


class PolicyError(Exception):
    """A set of files cannot be used.

    Args:
        problems: all problems found; duplicates are removed, and they are sorted by file and line.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(sorted(set(problems)))
        shown = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        more = len(self.problems) - len(shown)
        super().__init__("\n".join([*shown, f"and {more} more problems"] if more else shown))


class UnreadableError(PolicyError):
    """Files or folders could not be read, so their contents are unknown."""


def dotted(path: Path) -> str:
    """Return a path as text: `quotas.queues."a.b".slices` or `tolerations[0].key`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if len(part) <= MAX_KEY else f"{part[:MAX_KEY]}..."
            key = key if _BARE_KEY.fullmatch(key) else f'"{key}"'
            text += f".{key}" if text else key
    return text


def printable(text: str) -> str:
    """Return one line of harmless text: unprintable characters and control sequences are escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def quoted(value: Any) -> str:
    """Return a value in quotes, in one line and cut to a readable length."""
    text = str(value) if not isinstance(value, bool) else str(value).lower()
    text = " ".join(text.split()) if not text.isprintable() else text
    return f'"{text[:MAX_VALUE]}{"..." if len(text) > MAX_VALUE else ""}"'


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the nearest known word as ` (did you mean "..."?)`, or an empty text."""
    near = difflib.get_close_matches(word[:MAX_KEY], sorted(known), n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""
