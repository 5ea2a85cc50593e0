"""The kinds of GPU in a cluster that a pod's node affinity allows."""

from __future__ import annotations

from typing import Any

from kube.names import GPU_MODEL_ANNOTATION, MEMORY_LABEL, MIN_GPU_MEMORY_ANNOTATION
from ledger.ledger import Ledger
from ledger.placement_request import Placement
from modes.memory_text import memory_mib


def remaining_kinds(ledger: Ledger, pod: dict[str, Any], placement: Placement) -> list[dict[str, Any]]:
    """Return model, MiB and number of nodes of each kind of GPU that a placed pod may get, by model."""
    least = memory_mib(_annotations(pod).get(MIN_GPU_MEMORY_ANNOTATION) or "") or 0
    values = {int(value) for value in placement.memory_values}
    models = placement.models if placement.model is None else (placement.model,)
    if placement.instance is not None:
        models = placement.instance.products
    return [
        {"model": model, "memoryMiB": mib, "nodes": nodes}
        for (model, mib), nodes in sorted(ledger.gpu_kinds().items(), key=repr)
        if (not values or mib in values) and (not models or model in models) and (mib or 0) >= least
    ]


def asks_for_kinds(pod: dict[str, Any]) -> bool:
    """Whether the pod's request limits the kinds of GPU."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    narrows = {GPU_MODEL_ANNOTATION, MIN_GPU_MEMORY_ANNOTATION} & _annotations(pod).keys()
    return MEMORY_LABEL in labels or bool(narrows)


def _annotations(pod: dict[str, Any]) -> dict[str, Any]:
    return (pod.get("metadata") or {}).get("annotations") or {}
