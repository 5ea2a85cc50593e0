"""The kinds of GPU that a pod accepts, by words of their model and by their memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from kube.names import GPU_MODEL_ANNOTATION, GPU_PRODUCT_LABEL, MIN_GPU_MEMORY_ANNOTATION
from modes.memory_text import EXAMPLES, memory_mib

MAX_PATTERNS = 8
MAX_TEXT = 256
"""Characters of all patterns together."""
_PATTERN = re.compile(r"[A-Za-z0-9*](?:[-A-Za-z0-9*_.]{0,61}[A-Za-z0-9*])?", re.ASCII)
_EXAMPLE = 'such as "A100-80,H100*"'
GIGABYTES = "GB"
"""Words of a pattern may omit it: "80" matches 80GB."""


class GpuKinds(msgspec.Struct, frozen=True, gc=False):
    """A pod's demands on its GPUs, in addition to its share. Without any, it accepts every kind."""

    models: tuple[str, ...] = ()
    """Patterns; the model must match one of them."""
    min_mib: int = 0

    def takes_model(self, product: str | None) -> bool:
        """Whether the pod accepts a model, by the value of the node label nvidia.com/gpu.product."""
        return not self.models or any(matches(pattern, product or "") for pattern in self.models)


EVERY_KIND = GpuKinds()


@dataclass(frozen=True, slots=True)
class KindProblem:
    """An annotation that cannot be read as kinds of GPU."""

    annotation: str
    text: str
    advice: str
    """What to write instead."""


def read_gpu_kinds(annotations: Mapping[str, str]) -> GpuKinds | KindProblem:
    """Return the kinds of GPU in a pod's annotations (model patterns, minimum memory), or the problem."""
    models, memory = annotations.get(GPU_MODEL_ANNOTATION), annotations.get(MIN_GPU_MEMORY_ANNOTATION)
    if models is None and memory is None:
        return EVERY_KIND
    patterns = _patterns(models) if models is not None else ()
    if isinstance(patterns, KindProblem):
        return patterns
    mib = memory_mib(memory) if memory is not None else 0
    if mib is None:
        advice = f"use a whole number of Mi or Gi, such as {EXAMPLES}"
        return KindProblem(MIN_GPU_MEMORY_ANNOTATION, memory or "", advice)
    return GpuKinds(patterns, mib)


def is_pattern(text: str) -> bool:
    """Whether a text is a valid pattern for models."""
    return _PATTERN.fullmatch(text) is not None


def _patterns(text: str) -> tuple[str, ...] | KindProblem:
    if len(text) > MAX_TEXT:
        return KindProblem(GPU_MODEL_ANNOTATION, text, f"use at most {MAX_TEXT} characters")
    patterns = tuple(part.strip() for part in text.split(","))
    if any(" " in each for each in patterns):
        advice = f"write hyphens for blanks, as in the node label {GPU_PRODUCT_LABEL}, {_EXAMPLE}"
        return KindProblem(GPU_MODEL_ANNOTATION, text, advice)
    if len(patterns) > MAX_PATTERNS or not all(map(_PATTERN.fullmatch, patterns)):
        rule = f"use 1 to {MAX_PATTERNS} models with commas between them, and * for any part of a word"
        return KindProblem(GPU_MODEL_ANNOTATION, text, f"{rule}, {_EXAMPLE}")
    return patterns


def matches(pattern: str, product: str) -> bool:
    """Whether a model has the words of a pattern in the same order. `*` matches any part of a word.

    "A100-80" matches NVIDIA-A100-SXM4-80GB, but "A10" does not.
    """
    words = iter(product.upper().split("-"))
    return all(any(_is_word(wanted, word) for word in words) for wanted in pattern.upper().split("-"))


def _is_word(wanted: str, word: str) -> bool:
    return _stands_for(wanted, word) or (word.endswith(GIGABYTES) and _stands_for(wanted + GIGABYTES, word))


def _stands_for(wanted: str, word: str) -> bool:
    """Whether a word matches a text in which `*` matches anything.

    Unlike fnmatch, it does not compile and cache patterns: users could write thousands.
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
