"""Names of ClearML queues and the labels that the ClearML agent makes of them."""

from __future__ import annotations

_TO_DASH = str.maketrans("._ ", "---")


def sanitised(queue: str) -> str:
    """Write a queue's name as its label does: small letters; `.`, `_` and blank become `-`."""
    return queue.lower().translate(_TO_DASH)
