"""What a pod is told that is refused: a code, and one line that ends with what to do."""

from __future__ import annotations

from dataclasses import dataclass

from kube.reasons import ADMITTED, Reason

__all__ = ["ADMITTED", "END_KEPT", "MESSAGE_LIMIT", "Denial", "Reason", "cut_text"]

MESSAGE_LIMIT = 200
"""Characters of a denial: it is shown inside one line of the user's console."""
END_KEPT = 90
"""Of them, those of its end."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a pod is refused: a code for machines, one line of at most 200 characters for its user."""

    reason: Reason
    message: str

    @classmethod
    def of(cls, reason: Reason, message: str) -> Denial:
        """Make a denial whose message is one printable line, whatever user text it quotes."""
        # Cut first: a message may quote a text of 3 MiB. What to do stands at the end, and is kept.
        head = message[: MESSAGE_LIMIT - END_KEPT - 3]
        shown = message if len(message) <= MESSAGE_LIMIT else f"{head}...{message[-END_KEPT:]}"
        return cls(reason, "".join(c if c.isprintable() else "?" for c in shown))


def cut_text(text: str, most: int) -> str:
    """Return a text of the pod as a denial quotes it: its first characters, and "..." for the rest."""
    return text if len(text) <= most else text[:most] + "..."
