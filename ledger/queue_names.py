"""Names of ClearML queues, and the labels that ClearML's agent makes of them."""

from __future__ import annotations

_TO_DASH = str.maketrans("._ ", "---")


def sanitised(queue: str) -> str:
    """Return a queue's name as it appears in a label: in lower case; `.`, `_` and space become `-`."""
    return queue.lower().translate(_TO_DASH)


def queue_keys(name: str | None, identity: str | None) -> tuple[str, ...]:
    """Return the keys under which a pod's queue is counted: one for its name, one for its id.

    All spellings of a name give one key. An id's key starts with a character that no label value starts with,
    so it never equals a name.
    """
    keys = (sanitised(name),) if name else ()
    return (*keys, f"#{identity}") if identity else keys


def names_of_keys(keys: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Return the queue's name (in lower case) and its id; the inverse of `queue_keys`."""
    name = next((key for key in keys if not key.startswith("#")), None)
    identity = next((key[1:] for key in keys if key.startswith("#")), None)
    return name, identity
