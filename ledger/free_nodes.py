"""Where slices are free for a pod that waits: what is told to people, whoever walked the nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ledger.view import NodeView
from modes.mig_instances import is_instance

MAX_NODES_NAMED = 3


@dataclass(frozen=True, slots=True)
class FreeNodes:
    """Usable nodes that have all the GPUs that a pod wants, full ones included."""

    most: tuple[tuple[str, int], ...]
    """Names of those with most slices left on the fullest of these GPUs, and how many that are."""
    others: int
    """How many nodes more."""
    elsewhere: tuple[str, int, int] | None = None
    """Another GPU that has as many slices left as a pod of one GPU wants: node, index, slices."""
    by_agent: bool = False
    """Whether only nodes with a running agent were looked at: nothing else would limit the pod."""


def free_nodes(
    nodes: Iterable[NodeView],
    gpus: tuple[tuple[int, int], ...],
    memory_values: tuple[str, ...] | None = None,
    model: str | None = None,
    with_agent: Collection[str] | None = None,
) -> FreeNodes:
    """Find the nodes for a pod in published views of them.

    Args:
        nodes: all that are known.
        gpus: index and slices of each GPU that the pod asks for; empty for the pool.
        memory_values: texts of the label nvidia.com/gpu.memory that it takes; None for any.
        model: the product that it takes; None for any.
        with_agent: names of nodes with a running agent, for a pod that nothing else limits; None for any.
    """
    fitting = [
        node
        for node in nodes
        if _can_go(node, memory_values, model) and (with_agent is None or node.name in with_agent)
    ]
    indices: list[int | None] = [index for index, _ in gpus]
    left = [(node.name, _left(node, indices or [None])) for node in fitting]
    there = sorted([(-free, name) for name, free in left if free is not None])
    named = tuple([(name, -free) for free, name in there[:MAX_NODES_NAMED]])
    others, elsewhere = len(there) - len(named), _elsewhere(fitting, gpus)
    return FreeNodes(named, others, elsewhere, by_agent=with_agent is not None)


def _can_go(node: NodeView, memory_values: tuple[str, ...] | None, model: str | None) -> bool:
    if not node.usable or (model is not None and node.product != model):
        return False
    return not memory_values or str(node.gpu_mib) in memory_values


def _left(node: NodeView, indices: list[int | None]) -> int | None:
    free = _open(node)
    return max(0, min(free[each] for each in indices)) if all(each in free for each in indices) else None


def _open(node: NodeView) -> dict[int | None, int]:
    """Slices left of the GPUs that new pods may go to."""
    return {gpu.index: gpu.free for gpu in node.gpus if not gpu.cordoned}


def _elsewhere(nodes: list[NodeView], gpus: tuple[tuple[int, int], ...]) -> tuple[str, int, int] | None:
    """Return the GPU of a node that a pod of one GPU would fit on, had it that number."""
    if len(gpus) != 1 or is_instance(gpus[0][0]):
        return None
    for node in nodes:
        left = _open(node).items()
        numbered = [(-free, index) for index, free in left if index is not None and not is_instance(index)]
        if numbered and -min(numbered)[0] >= gpus[0][1]:
            return node.name, min(numbered)[1], -min(numbered)[0]
    return None
