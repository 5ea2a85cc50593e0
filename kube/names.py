"""What Kubernetes allows as names and label values; it checks them only after mutating webhooks."""

from __future__ import annotations

import re

MAX_LABEL_VALUE = 63
MAX_NAME = 253
"""Characters of most objects' names, nodes and pods among them, and of the prefix of a label's key."""
MAX_LABEL_KEY = MAX_NAME + 1 + 63
"""Characters of a label's or taint's key: prefix, slash and name."""

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SIGNS_OF_UIDS = bytes.maketrans(b"-.:_", b"0000")


def is_label_value(text: str) -> bool:
    """Whether the API server lets the text through as a label's value."""
    return _LABEL_VALUE.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """Whether a namespace can have that name."""
    return _NAMESPACE.fullmatch(text) is not None


def is_uid(text: str) -> bool:
    """Whether the text can name a review, and so a reservation: the API server sends UUIDs."""
    # This is asked of every review, and a regular expression takes three times as long.
    is_short = len(text) <= MAX_NAME and text.isascii()
    return is_short and (not text or text.encode().translate(_SIGNS_OF_UIDS).isalnum())
