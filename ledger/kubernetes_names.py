"""What Kubernetes allows as names and label values; it checks them only after mutating webhooks."""

from __future__ import annotations

import re
from string import ascii_letters, digits

MAX_LABEL_VALUE = 63
MAX_NAME = 253
"""Characters of most objects' names, nodes and pods among them, and of the prefix of a label's key."""
MAX_LABEL_KEY = MAX_NAME + 1 + 63
"""Characters of a label's or taint's key: prefix, slash and name."""

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_IN_UIDS = f"-.:_{ascii_letters}{digits}".encode()


def is_label_value(text: str) -> bool:
    """Whether the API server lets the text through as a label's value."""
    return _LABEL_VALUE.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """Whether a namespace can have that name."""
    return _NAMESPACE.fullmatch(text) is not None


def is_uid(text: str) -> bool:
    """Whether the text can name a review, and so a reservation: the API server sends UUIDs."""
    # This is asked of every review, and a regular expression takes twice as long.
    return len(text) <= MAX_NAME and text.isascii() and not text.encode().translate(None, _IN_UIDS)
