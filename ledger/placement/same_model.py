"""Restricts a pod to the GPU model of its owner's other pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.owners import GpuModel
from ledger.placement_request import PlacementRequest, Unschedulable
from modes.facts import NodeFact

_MAX_TOLD = 40


def model_of(node: NodeFact) -> GpuModel:
    """Return the GPU model of a node, by its labels."""
    return node.labels.get(GPU_PRODUCT_LABEL) or None, node.gpu_mib


def keep_to(model: GpuModel, request: PlacementRequest) -> PlacementRequest | None:
    """Return the request restricted to nodes of one model; None if the pod itself requires another.

    A missing label of the model is not required: a node affinity could not require it either.
    """
    constraints = request.demands.constraints
    labels = {GPU_PRODUCT_LABEL: model[0], GPU_MEMORY_LABEL: str(model[1]) if model[1] is not None else None}
    required = {key: value for key, value in labels.items() if value is not None}
    selector = {**required, **constraints.node_selector}
    if any(selector[key] != value for key, value in required.items()):
        return None
    return request.with_demands(constraints=msgspec.structs.replace(constraints, node_selector=selector))


def commonest_model(
    samples: Iterable[tuple[NodeFact, int]], indices: tuple[int, ...], gpu_mib: int
) -> GpuModel:
    """Return the model that most nodes with these indices and GPU memory have, for a pod that has to wait.

    `samples` are nodes, and how many nodes equal each of them in model and GPUs.
    """
    products: Counter[str] = Counter()
    for node, count in samples:
        if (node.gpu_mib or 0) == gpu_mib and set(indices) <= dict(node.gpus).keys():
            products[node.labels.get(GPU_PRODUCT_LABEL) or ""] += count
    product = min(products, key=lambda name: (-products[name], name), default="")
    return product or None, gpu_mib or None


def no_such_node(model: GpuModel) -> Unschedulable:
    """Return the refusal of a pod that no node of its owner's model could ever hold."""
    product, mib = model
    text = (product or f"GPUs of {mib} MiB")[:_MAX_TOLD]
    return Unschedulable(
        f"sameModel requires {text}, as its owner's pods have: change the pod's demands, or delete those pods"
    )
