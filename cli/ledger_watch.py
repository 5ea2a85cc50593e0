"""Shows the ledger continuously: pages that fit the screen, or, in a pipe, each new line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group
from rich.text import Text

SECONDS_OF_A_PAGE = 5
MIN_LINES = 4


def page(drawn: Sequence[Text], seconds: float, width: int, height: int) -> Group:
    """Return the current page: the headings, the lines that fit, and the page number.

    Args:
        drawn: all lines, headings first.
        seconds: since the start; the next page comes after `SECONDS_OF_A_PAGE`.
        width: of the screen; longer lines are cut.
        height: of the screen; one line is left for the cursor.
    """
    head, *rest = drawn
    room = max(MIN_LINES, height - 1) - 1
    if len(rest) <= room:
        return Group(*(cut(line, width) for line in drawn))
    room -= 1
    pages = -(-len(rest) // room)
    number = int(seconds // SECONDS_OF_A_PAGE) % pages
    shown = rest[number * room : (number + 1) * room]
    options = "--node --namespace --queue --free"
    foot = f"page {number + 1} of {pages}, {SECONDS_OF_A_PAGE} s each; for less: {options}"
    return Group(*(cut(line, width) for line in (head, *shown, Text(foot, "dim"))))


def cut(line: Text, width: int) -> Text:
    """Return a line cut to the width of the screen."""
    short = line.copy()
    short.truncate(width, overflow="ellipsis")
    return short


def news(before: Sequence[str], now: Sequence[str], moment: datetime) -> list[str]:
    """Return removed lines (-) and new lines (+), with the time."""
    known, current = set(before), set(now)
    time = moment.strftime("%H:%M:%S")
    gone = [f"{time} - {line}" for line in before if line not in current]
    return [*gone, *(f"{time} + {line}" for line in now if line not in known)]
