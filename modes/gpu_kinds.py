"""Which kinds of GPU a pod takes: by words of their model, and by their memory."""

from __future__ import annotations

import msgspec

GIGABYTES = "GB"
"""May be left out of a word such as 80GB."""


class GpuKinds(msgspec.Struct, frozen=True, gc=False):
    """What a pod's annotations demand of its GPUs beside a share; nothing takes every kind."""

    models: tuple[str, ...] = ()
    """Patterns, one of which the model must match."""
    min_mib: int = 0

    def takes_model(self, product: str | None) -> bool:
        """Whether a model is taken, by the value of the node label nvidia.com/gpu.product."""
        return not self.models or any(matches(pattern, product or "") for pattern in self.models)


EVERY_KIND = GpuKinds()


def matches(pattern: str, product: str) -> bool:
    """Whether the words of a pattern stand in a model in that order, `*` standing for any part of a word.

    "A100-80" matches NVIDIA-A100-SXM4-80GB, and "A10" does not.
    """
    words = iter(product.upper().split("-"))
    return all(any(_is_word(wanted, word) for word in words) for wanted in pattern.upper().split("-"))


def _is_word(wanted: str, word: str) -> bool:
    return _stands_for(wanted, word) or _stands_for(wanted + GIGABYTES, word)


def _stands_for(wanted: str, word: str) -> bool:
    """Whether a word is that text, `*` standing for any of it.

    As fnmatch has it, which compiles each pattern and keeps thousands: pods' authors write them.
    """
    first, *rest = wanted.split("*")
    if not rest:
        return word == wanted
    *middle, last = rest
    if not word.startswith(first):
        return False
    at = len(first)
    for part in middle:
        found = word.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(word) - at >= len(last) and word.endswith(last)
