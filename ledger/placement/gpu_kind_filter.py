"""Narrows a pod's question to the kinds of GPU that its annotations name, or says that there is none."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kube.names import GPU_PRODUCT_LABEL
from kube.scheduling import Requirement, with_requirement
from ledger.owners import GpuModel
from ledger.placement_request import PlacementRequest, Unschedulable

_MAX_NAMED = 3


def narrowed(
    request: PlacementRequest, known: Collection[GpuModel]
) -> tuple[PlacementRequest, tuple[str, ...]] | Unschedulable:
    """Return the question for nodes of the models alone, and these; or why no known node has such GPUs."""
    kinds = request.kinds
    models = sorted({model for model, _ in known if model and kinds.takes_model(model)})
    if kinds.models and not models:
        return Unschedulable(f"no GPU is of a model that it takes: {_known(known)}; mend the annotation")
    largest = max([mib or 0 for model, mib in known if kinds.takes_model(model)], default=kinds.min_mib)
    if largest < kinds.min_mib:
        why = f"no GPU that it takes has {kinds.min_mib} MiB, the largest has {largest}"
        return Unschedulable(f"{why}: ask for less, or for other models")
    if not kinds.models:
        return request, ()
    wanted = Requirement(GPU_PRODUCT_LABEL, "In", tuple(models))
    terms = with_requirement(request.constraints.required_terms, wanted)
    constraints = msgspec.structs.replace(request.constraints, required_terms=terms)
    return msgspec.structs.replace(request, constraints=constraints), tuple(models)


def _known(known: Collection[GpuModel]) -> str:
    models = sorted({model for model, _ in known if model})
    if not models:
        return f"nodes tell none, by the label {GPU_PRODUCT_LABEL}"
    more = f" and {len(models) - _MAX_NAMED} more" if len(models) > _MAX_NAMED else ""
    return f"known are {', '.join(models[:_MAX_NAMED])}{more}"
