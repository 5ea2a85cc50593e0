"""Texts of users and of other components, as sentences for people quote them."""

from __future__ import annotations

MAX_QUOTED = 400
"""Characters of a quoted text that a user wrote."""


def quoted(text: str, most: int = MAX_QUOTED) -> str:
    """Return a text that a user wrote as one line, cut to a length."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def closed(text: str, most: int = MAX_QUOTED) -> str:
    """Return a quoted text that ends a sentence."""
    line = quoted(text, most)
    return line if line.endswith((".", "!", "?")) else f"{line}."
