"""Our labels and annotations of pods: where each belongs, and what a wrong one was meant to be.

Nobody else uses the prefix. A key that is unknown or in the wrong place would have no effect, and its author
would get another share than the one that was meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Literal

from kube import names

ANNOTATIONS = (
    names.CONTAINER_ANNOTATION,
    names.CONTAINERS_ANNOTATION,
    names.GPUS_ANNOTATION,
    names.GPU_MODEL_ANNOTATION,
    names.MIN_GPU_MEMORY_ANNOTATION,
    names.COMPUTE_ANNOTATION,
)
"""What a pod's author writes in addition to a label."""
WRITTEN = (
    names.INJECTED_ANNOTATION,
    names.SLICES_ANNOTATION,
    names.GPU_INDEX_ANNOTATION,
    names.GPU_CONTAINER_ANNOTATION,
    names.MEMORY_MIB_ANNOTATION,
    names.RESERVATION_ANNOTATION,
    names.NO_SHARE_ANNOTATION,
    names.CERTIFICATE_ANNOTATION,
    names.POLICIES_ANNOTATION,
)
"""Annotations that the product itself writes."""
Kind = Literal["label", "annotation"]
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(names.ASKING_LABELS, "label"),
    **dict.fromkeys(ANNOTATIONS, "annotation"),
}
_NAMES = [key.removeprefix(names.PREFIX) for key in _KINDS]
MAX_LABEL_NAME = 63
"""Characters of a key after its prefix that Kubernetes accepts."""


def misplaced_keys(labels: Iterable[str], annotations: Collection[str]) -> Iterator[tuple[Kind, str, str]]:
    """Yield each of our keys that is unknown or in the wrong place.

    A pod that is marked as injected may have annotations of another release, which are unknown here.

    Yields:
        What the key is written as, the key, and the rule with what to do.
    """
    for key in labels:
        if key.startswith(names.PREFIX) and key not in names.ASKING_LABELS:
            yield "label", key, _rule(key, "label")
    is_marked = names.INJECTED_ANNOTATION in annotations
    for key in annotations:
        is_own = key.startswith(names.PREFIX) and key not in ANNOTATIONS and key not in WRITTEN
        if is_own and (key in names.ASKING_LABELS or not is_marked):
            yield "annotation", key, _rule(key, "annotation")


def _rule(key: str, kind: Kind) -> str:
    if key in WRITTEN:
        return f"has no effect as a {kind}, and the injector itself writes it: remove it"
    if key in _KINDS:
        return f"has no effect as {_with_article(kind)}: write it as {_with_article(_KINDS[key])}"
    # Only the names are compared: the prefix alone would make any two keys similar.
    name = key.removeprefix(names.PREFIX)[:MAX_LABEL_NAME]
    near = get_close_matches(name, _NAMES, n=1)
    if not near:
        return f"is unknown: remove it, or use one of {', '.join(_NAMES)}"
    meant = names.PREFIX + near[0]
    return f"is unknown: did you mean the {_KINDS[meant]} {meant}?"


def _with_article(kind: Kind) -> str:
    return "a label" if kind == "label" else "an annotation"
