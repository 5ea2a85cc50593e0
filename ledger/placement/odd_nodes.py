"""Nodes whose cards differ from their labels, and the hosts that a pod must therefore require or exclude.

Labels restrict a pod to nodes, and resource names to GPU indices, but the scheduler knows nothing of cards.
If the labels allow odd nodes whose cards of these indices do not fit, the pod excludes these hosts. If only
cards fit, and no label says so, the pod requires the hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, HOSTNAME_LABEL, MAX_LABEL_VALUE
from ledger.placement.candidates import Candidates
from ledger.placement.cards import CardDemand, Layout, card_sets, demand, layout
from ledger.placement.node_index import NodeIndex
from ledger.placement_request import MAX_HOSTS, Placement, PlacementRequest
from modes.facts import NodeFact

MAX_LOOKED_AT = 256
"""Nodes that are searched for hosts to require."""
_Alike = tuple[Layout, tuple[int, ...], str | None]
"""Facts of an odd node that decide whether it fits: its cards, its GPUs, and its memory label."""


class Hosts(NamedTuple):
    """Hosts that a pod requires or excludes. If it requires some, it requires no model or memory label."""

    only: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Excluded hosts."""


NO_HOSTS = Hosts()


class OddNodes:
    """The odd nodes of a cluster, grouped by equal facts."""

    def __init__(self, node_index: NodeIndex) -> None:
        self._node_index = node_index
        self._nodes: dict[_Alike, dict[str, NodeFact]] = {}

    def add(self, node: NodeFact) -> None:
        """Add a node, if it is odd; the inverse of `remove`."""
        key = _key(node)
        if key is not None:
            self._nodes.setdefault(key, {})[node.name] = node

    def remove(self, node: NodeFact) -> None:
        """Remove a node."""
        key = _key(node)
        if key is not None:
            nodes = self._nodes[key]
            del nodes[node.name]
            if not nodes:
                del self._nodes[key]

    def hosts(self, request: PlacementRequest, placement: Placement, candidates: Candidates) -> Hosts:
        """Return the hosts that a pod must require or exclude, to get only GPUs that fit."""
        wanted = demand(request) if self._nodes else None
        if wanted is None or not (wanted.chooses and placement.indices):
            return NO_HOSTS
        node = self._node_index.fact(placement.node) if placement.node is not None else None
        tried = [node] if node is not None else [each for each, _ in candidates.samples()]
        if any(_leads_to(each, wanted, placement) and _suits(each, wanted, placement) for each in tried):
            unsuited = list(islice(self._unsuited(wanted, placement), MAX_HOSTS + 1))
            if len(unsuited) <= MAX_HOSTS:
                return Hosts((), tuple(sorted(unsuited)))
        suited = dict.fromkeys(
            hosts_of(chain(tried[:1] if node else (), self._suited(wanted, placement, candidates)))
        )
        return Hosts(tuple(sorted(islice(suited, MAX_HOSTS))))

    def _unsuited(self, wanted: CardDemand, placement: Placement) -> Iterator[str]:
        """Yield hosts that the labels allow but whose cards do not fit."""
        for nodes in self._nodes.values():
            sample = next(iter(nodes.values()))
            if _leads_to(sample, wanted, placement) and _has_unsuited(sample, wanted, placement):
                yield from hosts_of(nodes.values())

    def _suited(self, wanted: CardDemand, placement: Placement, candidates: Candidates) -> Iterable[NodeFact]:
        """Yield nodes that the pod accepts, and whose cards fit."""
        odd = chain(
            *[
                nodes.values()
                for nodes in self._nodes.values()
                if _suits(next(iter(nodes.values())), wanted, placement)
            ]
        )
        accounts = self._node_index.accounts
        may_run = [node for node in islice(odd, MAX_LOOKED_AT) if candidates.holds(accounts[node.name])]
        others = islice(candidates.members(), MAX_LOOKED_AT)
        return chain(may_run, (node for node in others if _suits(node, wanted, placement)))


def _key(node: NodeFact) -> _Alike | None:
    found = layout(node)
    if found is None:
        return None
    return found, tuple([index for index, _ in node.gpus]), node.labels.get(GPU_MEMORY_LABEL)


def hosts_of(nodes: Iterable[NodeFact]) -> Iterator[str]:
    """Yield the values of the host name label with which pods can name these nodes.

    Kubelets give every node this label. In a cluster without it, a name may be too long for a label value.
    """
    for node in nodes:
        host = node.labels.get(HOSTNAME_LABEL) or node.name
        if len(host) <= MAX_LABEL_VALUE:
            yield host


def _leads_to(node: NodeFact, wanted: CardDemand, placement: Placement) -> bool:
    """Whether a node satisfies a pod's demands on GPU labels."""
    product, kinds = node.labels.get(GPU_PRODUCT_LABEL), wanted.kinds
    values = placement.memory_values
    return (
        (not values or node.labels.get(GPU_MEMORY_LABEL) in values)
        and placement.model in {None, product}
        and kinds.takes_model(product)
        and kinds.min_mib <= (node.gpu_mib or 0)
    )


def _suits(node: NodeFact, wanted: CardDemand, placement: Placement) -> bool:
    """Whether a node has the placement's GPUs, and they fit."""
    return _has_all(node, placement) and not _has_unsuited(node, wanted, placement)


def _has_all(node: NodeFact, placement: Placement) -> bool:
    return {index for index, _ in node.gpus}.issuperset(placement.indices)


def _has_unsuited(node: NodeFact, wanted: CardDemand, placement: Placement) -> bool:
    """Whether a node has the placement's GPUs, but they do not fit."""
    if not _has_all(node, placement):
        return False
    sets = card_sets(node, wanted)
    return sets is not None and not any(each.issuperset(placement.indices) for each in sets)
