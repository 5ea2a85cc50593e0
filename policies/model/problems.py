"""What is wrong with the files of an admin: where, which value, which rule, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

Path = tuple[str | int, ...]
"""Keys and list positions that lead to a value in a YAML document."""

MAX_VALUE = 60
MAX_KEY = 253
MAX_PROBLEMS = 1000
"""Problems that are looked for in one set; an admin mends these first."""
MAX_SHOWN = 100
"""Problems in the text of an error, which goes into a log line and into /readyz."""
MAX_KNOWN = 200
"""Words among which a misspelled one is looked for: each takes some microseconds."""
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake (or, where it is advice, one thing worth knowing) in one place."""

    file: str
    line: int
    """Counted from 1; 0 when the problem is the file's, or the folder's, as a whole."""
    path: str
    """Dotted path of the value, such as `fractions."0.5"`; empty for the document as a whole."""
    rule: str
    """What is wrong with which value, and what to write instead."""

    def __str__(self) -> str:
        """Text form `default.yaml:12: fractions."0.5": ...`, as compilers print it, in one printable line."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return printable(": ".join(part for part in (place, self.path, self.rule) if part))


class PolicyError(Exception):
    """A set of files cannot be used.

    Args:
        problems: all that was found, not only the first; kept once each, sorted by file and line.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(sorted(set(problems)))
        shown = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        more = len(self.problems) - len(shown)
        super().__init__("\n".join([*shown, f"and {more} more problems"] if more else shown))


class UnreadableError(PolicyError):
    """Files or folders could not be read at all; nothing is said of what they hold."""


def dotted(path: Path) -> str:
    """Write a path as `quotas.queues."a.b".slices` or `tolerations[0].key`."""
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
    """Show what a terminal would obey, or could not show, as an escape: one line of harmless text."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def quoted(value: Any) -> str:
    """Show a value in a message, in one line and cut to a readable length."""
    text = str(value) if not isinstance(value, bool) else str(value).lower()
    text = " ".join(text.split()) if not text.isprintable() else text
    return f'"{text[:MAX_VALUE]}{"..." if len(text) > MAX_VALUE else ""}"'


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the nearest known word as ` (did you mean "..."?)`, or nothing."""
    words = list(islice(known, MAX_KNOWN + 1))
    if len(words) > MAX_KNOWN or len(word) > MAX_KEY:
        return ""
    near = difflib.get_close_matches(word, sorted(words), n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""
