"""Where slices are free for a pod that waits: what is told to people, whoever walked the nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ledger.facts import PodFact
from ledger.view import NodeView
from modes.mig_instances import is_instance

MAX_NODES_NAMED = 3
Amounts = tuple[tuple[int | None, int], ...]
"""Index (None: the pool) and slices."""


@dataclass(frozen=True, slots=True)
class FreeNodes:
    """Usable nodes that have all the GPUs that a pod wants, full ones included."""

    most: tuple[tuple[str, int], ...]
    """Names of those with most slices left on the fullest of these GPUs, and how many that are."""
    others: int
    """How many nodes more."""
    elsewhere: tuple[str, int, int] | None = None
    """Another GPU that has as many slices left as a pod of one GPU wants: node, index, slices."""
    has_room: bool = False
    """Whether one of them has left what the pod asks of each of these GPUs."""
    by_agent: bool = False
    """Whether only nodes with a running agent were looked at: nothing else would limit the pod."""
    shut_out: int = 0
    """Nodes that have all these GPUs, and that the pod's own demands on its node leave out."""
    offered_twice: int = 0
    """Nodes that have all these GPUs and get no pods, as a DRA driver offers one of these GPUs too."""


def amounts_of(pod: PodFact) -> Amounts:
    """Return what a pod asks for, as `free_nodes` takes it."""
    return pod.gpus or ((None, pod.pooled),)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pod wants of a node."""

    amounts: Amounts
    """Index and slices of each GPU that it asks for, None for the pool."""
    memory_values: tuple[str, ...] | None = None
    """Texts of the label nvidia.com/gpu.memory that it takes; None for any."""
    models: Collection[str] = ()
    """Products that it takes; none for any."""
    with_agent: Collection[str] | None = None
    """Names of nodes with a running agent, for a pod that nothing else limits; None for any."""
    accepted: Collection[str] | None = None
    """Names of nodes that its selectors, affinity and tolerations let it go to; None for any."""


def free_nodes(nodes: Iterable[NodeView], wanted: Wanted) -> FreeNodes:
    """Find the nodes for a pod in published views of all that are known."""
    amounts, accepted, with_agent = wanted.amounts, wanted.accepted, wanted.with_agent
    indices = [index for index, _ in amounts]
    able = [
        node
        for node in nodes
        if _can_go(node, wanted.memory_values, wanted.models)
        and (with_agent is None or node.name in with_agent)
    ]
    fitting = [node for node in able if accepted is None or node.name in accepted]
    with_gpus = sum(_left(node, indices) is not None for node in able)
    left = [(node.name, _left(node, indices)) for node in fitting]
    there = sorted([(-free, name) for name, free in left if free is not None])
    named = tuple([(name, -free) for free, name in there[:MAX_NODES_NAMED]])
    return FreeNodes(
        named,
        others=len(there) - len(named),
        elsewhere=_elsewhere(fitting, amounts),
        has_room=any(_holds(node, amounts) for node in fitting),
        by_agent=with_agent is not None,
        shut_out=with_gpus - len(there),
        offered_twice=sum(_offers_twice(node, indices) for node in able),
    )


def _can_go(node: NodeView, memory_values: tuple[str, ...] | None, models: Collection[str]) -> bool:
    if not node.usable or (models and node.product not in models):
        return False
    return not memory_values or str(node.gpu_mib) in memory_values


def _left(node: NodeView, indices: list[int | None]) -> int | None:
    free = _open(node)
    return max(0, min(free[each] for each in indices)) if all(each in free for each in indices) else None


def _offers_twice(node: NodeView, indices: list[int | None]) -> bool:
    twice = {gpu.index: gpu.offered_twice for gpu in node.gpus if gpu.capacity}
    return all(each in twice for each in indices) and any(twice[each] for each in indices)


def _holds(node: NodeView, amounts: Amounts) -> bool:
    free = _open(node)
    return all(free.get(index, 0) >= slices for index, slices in amounts)


def _open(node: NodeView) -> dict[int | None, int]:
    """Slices left of the GPUs that new pods may go to."""
    return {gpu.index: gpu.free for gpu in node.gpus if not gpu.cordoned}


def _elsewhere(nodes: list[NodeView], amounts: Amounts) -> tuple[str, int, int] | None:
    """Return the GPU of a node that a pod of one GPU would fit on, had it that number."""
    asked, slices = amounts[0]
    if len(amounts) != 1 or asked is None or is_instance(asked):
        return None
    for node in nodes:
        left = _open(node).items()
        numbered = [(-free, index) for index, free in left if index is not None and not is_instance(index)]
        if numbered and -min(numbered)[0] >= slices:
            return node.name, min(numbered)[1], -min(numbered)[0]
    return None
