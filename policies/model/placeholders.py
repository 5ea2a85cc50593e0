"""The closed list of placeholders in values of environment variables, such as `{memory_mib}`.

There are no templates, expressions or conditions: only these names are replaced, by `str.format_map`. Checked
texts have no other braces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PLACEHOLDERS: Mapping[str, str] = {
    "memory_mib": "MiB of GPU memory that the pod gets on each GPU, after memory.reserveMiB",
    "slices": "slices that the pod holds on each GPU",
    "slices_per_gpu": "slices of one GPU",
    "percent": "slices as a percentage of one GPU, rounded down",
    "index": "index of the GPU on its node; several are joined by commas (per-gpu mode only)",
    "container": "name of the GPU container",
    "namespace": "namespace of the pod",
}

_NAMED = re.compile(r"\{([^{}]*)\}")


def used(text: str) -> frozenset[str]:
    """Return the names of the placeholders in a text."""
    return frozenset(_NAMED.findall(text))


def check(text: str) -> str:
    """Return the text if its braces contain only known placeholders.

    Raises:
        ValueError: an unknown placeholder, or a brace outside a placeholder.
    """
    if unknown := sorted(used(text) - PLACEHOLDERS.keys()):
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise ValueError(f"unknown placeholder {{{unknown[0]}}}: known ones are {known}")
    if re.search(r"[{}]", _NAMED.sub("", text)):
        raise ValueError("a brace outside a placeholder such as {memory_mib}")
    return text
