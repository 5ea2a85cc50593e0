"""Reads parts of reviews that are nested too deeply to decode."""

from __future__ import annotations

import re

from kube.names import ASKING_LABELS

_TEXT = rb'"[^"\\]{0,63}"'
_HEAD = re.compile(
    rb'\s*\{\s*(?:"(?:kind|apiVersion)"\s*:\s*%b\s*,\s*){0,2}"request"\s*:\s*\{\s*"uid"\s*:\s*"([^"\\]{1,63})"'
    % _TEXT
)
"""The beginning of a review from an API server."""
_VERSION = re.compile(rb'"apiVersion"\s*:\s*"([^"]*)"')


def head_of(body: bytes) -> tuple[str, str] | None:
    """Return API version and uid of a review; None if it does not begin and end like an API server's."""
    match = _HEAD.match(body)
    if match is None or not body.rstrip().endswith(b"}}"):
        return None
    version = _VERSION.search(match[0])
    named = version[1] if version is not None else b"admission.k8s.io/v1"
    return named.decode("utf-8", "replace"), match[1].decode("utf-8", "replace")


def is_surely_unlabelled(body: bytes) -> bool:
    """Whether a review contains none of our labels, and no escape that could spell one."""
    return not any(label.encode() in body for label in ASKING_LABELS) and b"\\" not in body
