"""The node annotation `clearml-injector/cordon`, which takes single GPUs out of placement."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kube.names import MAX_GPU_INDEX_DIGITS

_INDEX = re.compile(rf"[0-9]{{1,{MAX_GPU_INDEX_DIGITS}}}", re.ASCII)
_SEPARATORS = re.compile(r"[, ]+")


def written(indices: Iterable[int]) -> str:
    """Return the annotation's value for some GPUs; the inverse of `indices_of`."""
    return ",".join(str(index) for index in sorted(indices))


def indices_of(text: str) -> frozenset[int]:
    """Return the GPU indices in a value; parts that are no index are ignored."""
    return frozenset(int(part) for part in _SEPARATORS.split(text) if _INDEX.fullmatch(part))
