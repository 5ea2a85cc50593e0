"""The closed list of placeholders in values of environment variables: `{memory_mib}` and its like.

No templates, no expressions, no conditions: a value is text in which these names are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PLACEHOLDERS: Mapping[str, str] = {
    "memory_mib": "MiB of GPU memory that the pod gets on each GPU, after memory.reserveMiB",
    "slices": "slices that the pod holds on each GPU",
    "slices_per_gpu": "slices of one GPU",
    "percent": "slices in per cent of one GPU, rounded down",
    "index": "number of the GPU on its node; several are joined by commas (per-gpu mode only)",
    "container": "name of the GPU container",
    "namespace": "namespace of the pod",
}

_NAMED = re.compile(r"\{([^{}]*)\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace every placeholder of a checked text.

    Raises:
        KeyError: `values` lacks a placeholder that the text uses.
    """
    return _NAMED.sub(lambda match: values[match[1]], text)


def used(text: str) -> frozenset[str]:
    """Return the names of the placeholders in a text."""
    return frozenset(_NAMED.findall(text))


def check(text: str) -> str:
    """Return the text if its braces hold nothing but known placeholders.

    Raises:
        ValueError: an unknown placeholder, or a brace that belongs to none.
    """
    if unknown := sorted(used(text) - PLACEHOLDERS.keys()):
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise ValueError(f"unknown placeholder {{{unknown[0]}}}: known are {known}")
    if re.search(r"[{}]", _NAMED.sub("", text)):
        raise ValueError("a brace outside a placeholder such as {memory_mib}")
    return text
