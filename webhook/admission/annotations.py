"""Annotations that record the decision on the pod; a user's values are always overwritten."""

from __future__ import annotations

from collections.abc import Iterable

from kube import names
from webhook.admission.json_patch import Operation, add, pointer, remove
from webhook.admission.pod import ObjectMeta

INJECTED = names.INJECTED_ANNOTATION
SLICES = names.SLICES_ANNOTATION
GPU_INDEX = names.GPU_INDEX_ANNOTATION
GPU_CONTAINER = names.GPU_CONTAINER_ANNOTATION
MEMORY_MIB = names.MEMORY_MIB_ANNOTATION
RESERVATION = names.RESERVATION_ANNOTATION
OUTPUTS = (INJECTED, SLICES, GPU_INDEX, GPU_CONTAINER, MEMORY_MIB, RESERVATION)
_PATH = "/metadata/annotations"
_PATHS = {name: _PATH + pointer(name) for name in OUTPUTS}


def numbers_text(numbers: Iterable[int]) -> str:
    """Return indices or MiB as the annotations have them: "3", or "0,1" for several."""
    return ",".join(map(str, numbers))


def write_annotations(metadata: ObjectMeta, values: dict[str, str]) -> list[Operation]:
    """Set our annotations, and remove those of ours that do not apply to this pod."""
    existing = metadata.annotations
    if existing is None:
        return [add(_PATH, values)]
    stale = [remove(_PATHS[name]) for name in OUTPUTS if name in existing and name not in values]
    return stale + [add(_PATHS[name], value) for name, value in values.items() if existing.get(name) != value]
