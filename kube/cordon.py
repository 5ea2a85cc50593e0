"""The node annotation `clearml-injector/cordon`, which takes single GPUs out of placement."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from kube.names import CORDON_ANNOTATION, MAX_GPU_INDEX_DIGITS

MAX_SHOWN = 60
_INDEX = re.compile(rf"[0-9]{{1,{MAX_GPU_INDEX_DIGITS}}}", re.ASCII)
_SEPARATORS = re.compile(r"[, ]+")


def written(indices: Iterable[int]) -> str:
    """Return the annotation's value for some GPUs; the inverse of `indices_of`."""
    return ",".join(str(index) for index in sorted(indices))


def indices_of(text: str) -> frozenset[int]:
    """Return the GPU indices in a value; parts that are no index are ignored."""
    return frozenset(int(part) for part in _SEPARATORS.split(text) if _INDEX.fullmatch(part))


def problem(text: str, gpus: Collection[int]) -> str | None:
    """Return what is wrong with a node's value; `gpus` are its indices, empty while its plugin is away."""
    bad = [part for part in _SEPARATORS.split(text.strip(", ")) if not _INDEX.fullmatch(part)]
    if text.strip(", ") and bad:
        rule = f'"{bad[0][:MAX_SHOWN]}" is not a GPU index and is ignored: write indices, such as "0,2"'
        return f"annotation {CORDON_ANNOTATION}: {rule}"
    absent = sorted(indices_of(text) - set(gpus)) if gpus else []
    if absent:
        rule = f"the node has no GPU {absent[0]}: it has {written(gpus)}"
        return f"annotation {CORDON_ANNOTATION}: {rule}; fix the annotation"
    return None
