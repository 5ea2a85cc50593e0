"""Nodes with free slices for a waiting pod, as shown to users."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from ledger.view import NodeView
from modes.facts import PodFact
from modes.units import POOL, Amounts, Gpu, Unit

MAX_NODES_NAMED = 3


@dataclass(slots=True)
class FreeNodes:
    """Usable nodes, full ones included, that have all GPUs that a pod requests."""

    most: tuple[tuple[str, int], ...] = ()
    """The nodes with most free slices on the fullest of these GPUs, and that number."""
    others: int = 0
    """Number of such nodes that `most` does not list."""
    elsewhere: tuple[str, int, int] | None = None
    """For a pod of one GPU, another GPU with enough free slices: node, index, slices."""
    other_model: str = ""
    """A model that the pod does not accept, and of which a GPU has enough free slices; empty for none."""
    has_room: bool = False
    """Whether one of the nodes has enough free slices on each of these GPUs."""
    by_agent: bool = False
    """Whether only nodes with a running agent were searched, because nothing else limits the pod."""
    shut_out: int = 0
    """Nodes that have all these GPUs but do not satisfy the pod's own node demands."""
    not_compared: bool = False
    """Whether no node was searched, because the pod's own node demands are too long to compare with all."""


def amounts_of(pod: PodFact) -> Amounts:
    """Return a pod's request in the form of `Wanted.amounts`."""
    return pod.takes or ((POOL, 0),)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pod requires of a node."""

    amounts: Amounts
    memory_values: tuple[str, ...] | None = None
    """Accepted values of the node label nvidia.com/gpu.memory; None accepts any."""
    models: tuple[str, ...] = ()
    """Accepted GPU models; empty accepts any."""
    by_agent: bool = False
    """Whether the node needs a running agent, because nothing else limits the pod."""


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node, with its free GPU slices."""

    name: str
    usable: bool
    """Whether the node accepts pods now."""
    product: str | None
    """Model of its GPUs; None if unknown."""
    memory: str | None
    """Value of its label nvidia.com/gpu.memory (MiB of one GPU); None without it."""
    agent_serves: bool
    """Whether an agent on the node enforces limits."""
    free: Mapping[Unit, int]
    """What is free of each unit, never negative; without cordoned GPUs."""


class FreeNodesSearch:
    """Collects `FreeNodes` from nodes; `accepts` tells whether the pod's node demands accept one, by name."""

    def __init__(self, wanted: Wanted, accepts: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self._accepts = accepts
        self._takes_another = len(wanted.amounts) == 1 and isinstance(wanted.amounts[0][0], Gpu)
        self.found = FreeNodes(by_agent=wanted.by_agent)
        """What was found so far."""

    def look_at(self, node: NodeRoom) -> None:
        """Add a node to the result, if it has room."""
        if not node.usable or (self._wanted.by_agent and not node.agent_serves):
            return
        amounts, found = self._wanted.amounts, self.found
        if self._wanted.models and node.product not in self._wanted.models:
            if node.product and self._takes_another and max(node.free.values(), default=0) >= amounts[0][1]:
                found.other_model = min(found.other_model or node.product, node.product)
            return
        if self._wanted.memory_values and node.memory not in self._wanted.memory_values:
            return
        left = [node.free[unit] for unit, _ in amounts if unit in node.free]
        has_all, is_sought = len(left) == len(amounts), self._takes_another and found.elsewhere is None
        if not (has_all or is_sought):
            return
        is_accepted = self._accepts(node.name)
        if has_all:
            self._count(node.name, left, is_accepted=is_accepted)
        if is_accepted and is_sought:
            gpus = [(-free, unit) for unit, free in node.free.items() if isinstance(unit, Gpu)]
            most, freest = min(gpus, default=(0, Gpu(0)))
            if -most >= amounts[0][1]:
                found.elsewhere = node.name, freest, -most

    def _count(self, name: str, left: list[int], *, is_accepted: bool) -> None:
        found = self.found
        if not is_accepted:
            found.shut_out += 1
            return
        ranked = sorted([*found.most, (name, min(left))], key=lambda each: (-each[1], each[0]))
        found.most = tuple(ranked[:MAX_NODES_NAMED])
        found.others += len(ranked) > MAX_NODES_NAMED
        asked = [slices for _, slices in self._wanted.amounts]
        found.has_room = found.has_room or all(map(operator.ge, left, asked))


def free_nodes(
    nodes: Iterable[NodeView],
    wanted: Wanted,
    accepts: Callable[[str], bool] = lambda _: True,
    with_agent: Collection[str] = (),
) -> FreeNodes:
    """Search published views of all known nodes; `with_agent` names those with a running agent."""
    search = FreeNodesSearch(wanted, accepts)
    for node in nodes:
        memory = str(node.gpu_mib) if node.gpu_mib is not None else None
        free = {gpu.unit: gpu.free for gpu in node.gpus if not gpu.cordoned}
        serves = node.name in with_agent
        search.look_at(NodeRoom(node.name, node.usable, node.product, memory, serves, free))
    return search.found
