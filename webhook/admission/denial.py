"""A denial: a code, and one line for the user that ends with what to do."""

from __future__ import annotations

from dataclasses import dataclass

from kube.reasons import ADMITTED, Reason

__all__ = ["ADMITTED", "END_KEPT", "MESSAGE_LIMIT", "Denial", "Reason", "cut_text"]

MESSAGE_LIMIT = 200
"""Maximum characters of a denial: the user's console shows it inside one line."""
END_KEPT = 90
"""Characters of the end that a shortened message keeps."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a pod is denied: a code for machines, and one line of at most 200 characters for its user."""

    reason: Reason
    message: str

    @classmethod
    def of(cls, reason: Reason, message: str) -> Denial:
        """Return a denial with a message of one printable line, even if it quotes a user's text."""
        # Shorten first: a message may quote a text of 3 MiB. Keep the end, which says what to do.
        head = message[: MESSAGE_LIMIT - END_KEPT - 3]
        shown = message if len(message) <= MESSAGE_LIMIT else f"{head}...{message[-END_KEPT:]}"
        return cls(reason, "".join(c if c.isprintable() else "?" for c in shown))


def cut_text(text: str, most: int) -> str:
    """Return the first characters of a text for a denial, and "..." for the rest."""
    return text if len(text) <= most else text[:most] + "..."
