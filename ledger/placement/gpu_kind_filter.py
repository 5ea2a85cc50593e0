"""Turns the kinds of GPU in a pod's annotations into demands on node labels, or says why none fits."""

from __future__ import annotations

from collections.abc import Collection

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.owners import GpuModel
from ledger.placement_request import PlacementRequest, Unschedulable
from modes.gpu_kinds import GpuKinds

_MAX_NAMED = 3


def no_such_kind(request: PlacementRequest, known: Collection[GpuModel]) -> Unschedulable | None:
    """Return why no known GPU is of a kind that a pod accepts; None if there is one."""
    kinds = request.demands.kinds
    taken = [(model, mib or 0) for model, mib in known if kinds.takes_model(model)]
    if kinds.models and not any(model for model, _ in taken):
        return Unschedulable(f"no GPU has one of its models: {_known(known)}")
    largest = max([mib for _, mib in taken], default=kinds.min_mib)
    if largest < kinds.min_mib:
        why = f"no accepted GPU has {kinds.min_mib} MiB, the largest has {largest}"
        return Unschedulable(f"{why}: request less, or other models")
    return None


def models_of(kinds: GpuKinds, known: Collection[GpuModel]) -> tuple[str, ...]:
    """Return the known models that a pod accepts, sorted; empty if it names none."""
    return (
        tuple(sorted({model for model, _ in known if model and kinds.takes_model(model)}))
        if kinds.models
        else ()
    )


def by_labels(kinds: GpuKinds, models: tuple[str, ...]) -> Constraints:
    """Return the label demands for nodes with GPUs of one of these models, and with enough memory."""
    wanted = [Requirement(GPU_PRODUCT_LABEL, "In", models)] if kinds.models else []
    wanted += [Requirement(GPU_MEMORY_LABEL, "Gt", (str(kinds.min_mib - 1),))] if kinds.min_mib else []
    return Constraints(required_terms=(NodeSelectorTerm(tuple(wanted)),) if wanted else None)


def _known(known: Collection[GpuModel]) -> str:
    models = sorted({model for model, _ in known if model})
    if not models:
        return f"no node has the label {GPU_PRODUCT_LABEL}; ask the admin to set it"
    more = f" and {len(models) - _MAX_NAMED} more" if len(models) > _MAX_NAMED else ""
    return f"the cluster has {', '.join(models[:_MAX_NAMED])}{more}; fix the annotation"
