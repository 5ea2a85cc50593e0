"""Prints untrusted text to the terminal without control characters.

A name, a label or an error text may contain escape sequences that move the cursor, rename the window or
reverse text. All output of commands goes through here.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment


class Terminal(Console):
    """A rich console that does not interpret printed text.

    Args:
        soft_wrap: whether the terminal wraps long lines.
    """

    def __init__(self, *, soft_wrap: bool = False) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render to segments, with `�` for each character that is not printable."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text == "\n" or segment.text.isprintable():
                yield segment
            else:
                yield Segment(_replaced(segment.text), segment.style)


def _replaced(text: str) -> str:
    return "".join(each if each.isprintable() or each == "\n" else "�" for each in text)
