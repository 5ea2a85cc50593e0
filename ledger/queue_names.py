"""Names of ClearML queues and the labels that the ClearML agent makes of them."""

from __future__ import annotations

_TO_DASH = str.maketrans("._ ", "---")


def sanitised(queue: str) -> str:
    """Write a queue's name as its label does: small letters; `.`, `_` and blank become `-`."""
    return queue.lower().translate(_TO_DASH)


def queue_keys(name: str | None, identity: str | None) -> tuple[str, ...]:
    """What a pod's queue is counted under, by its labels: one key for all spellings of a name, one for an id.

    No label's value begins with the sign before an id, so that no name is taken for one.
    """
    keys = (sanitised(name),) if name else ()
    return (*keys, f"#{identity}") if identity else keys
