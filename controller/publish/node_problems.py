"""Nodes with GPUs that cannot run fractions: what they lack, and what to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.view import NodeView
from modes.facts import NodeFact
from modes.units import profile_of_product

NodeProblem = Literal["NoMemoryLabel", "WholeGpus"]
_MESSAGES: Mapping[NodeProblem, str] = {
    "NoMemoryLabel": f"the node label {GPU_MEMORY_LABEL} is missing or not a number of MiB: install GPU"
    f" feature discovery, or run kubectl label node NAME {GPU_MEMORY_LABEL}=<MiB of one GPU>",
    "WholeGpus": "GPUs are offered whole: divide them by the device plugin's time slicing"
    " (fraction-injector gpu-operator-values prints how)",
}


def of_view(node: NodeView) -> NodeProblem | None:
    """Return what a node lacks for fractions; None if nothing."""
    is_pool = all(gpu.index is None for gpu in node.gpus)
    is_divided = profile_of_product(node.product or "") is not None
    is_whole = is_pool and node.slices_per_gpu == 1 and not is_divided
    return _found(is_whole=is_whole, gpu_mib=node.gpu_mib)


def of_fact(node: NodeFact) -> NodeProblem | None:
    """Return what a node lacks for fractions; None if nothing, or if it has no GPUs."""
    if not (node.gpus or node.pooled):
        return None
    is_divided = profile_of_product(node.labels.get(GPU_PRODUCT_LABEL) or "") is not None
    is_whole = not node.gpus and node.pooled == node.pooled_gpus and not is_divided
    return _found(is_whole=is_whole, gpu_mib=node.gpu_mib)


def message(found: NodeProblem, node: str) -> str:
    """Return the message: what is missing, and what to run."""
    return _MESSAGES[found].replace("NAME", node)


def _found(*, is_whole: bool, gpu_mib: int | None) -> NodeProblem | None:
    if is_whole:
        return "WholeGpus"
    return "NoMemoryLabel" if gpu_mib is None else None
