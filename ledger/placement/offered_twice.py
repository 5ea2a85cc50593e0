"""Nodes whose GPUs a DRA driver offers too, and how pods are kept off them.

The scheduler counts what the device plugin offers, and nothing there tells it of the driver's claims on the
same GPUs. So a pod that it could bind to such a node shuts the node's host out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.facts import NodeFact
from ledger.placement.candidates import Candidates
from ledger.placement.feasibility import TWICE
from ledger.placement.odd_nodes import MAX_LOOKED_AT, Hosts, hosts_of
from ledger.placement.pool_hosts import admits
from ledger.placement_request import MAX_HOSTS, Placement, PlacementRequest, Unschedulable

_Alike = tuple[frozenset[int], bool, tuple[int, ...], tuple[int, ...], bool, str | None, str | None]
"""What decides whether a placement can lead to GPUs that are offered twice: the GPUs and the labels."""


class OfferedTwice:
    """Such nodes of a cluster, those that are alike together."""

    def __init__(self) -> None:
        self._nodes: dict[_Alike, dict[str, NodeFact]] = {}

    def add(self, node: NodeFact) -> None:
        """Enter a node, if it is one; the inverse of `remove`."""
        if node.is_offered_twice or node.offered_twice:
            self._nodes.setdefault(_key(node), {})[node.name] = node

    def remove(self, node: NodeFact) -> None:
        """Forget a node."""
        key = _key(node)
        nodes = self._nodes.get(key, {})
        if nodes.pop(node.name, None) is not None and not nodes:
            del self._nodes[key]

    def shut_out(
        self, hosts: Hosts, placed: Placement, node: NodeFact | None, candidates: Candidates
    ) -> Hosts | Unschedulable:
        """Return what a pod must say of hosts, so that it gets no GPU that is offered twice.

        Where there are more hosts than a pod can shut out, it names some that suit; unschedulable, where none
        does.

        Args:
            hosts: what it must say of them for other reasons; those that it names alone suit.
            placed: with the labels that bind it.
            node: where it is placed; None where it waits.
            candidates: the nodes that could hold it.
        """
        if not self._nodes or hosts.only:
            return hosts
        twice = islice(self._hosts(candidates.request, placed), MAX_HOSTS + 1)
        others = {*hosts.others, *twice}
        if len(others) <= MAX_HOSTS:
            return Hosts((), tuple(sorted(others)))
        suited = (host for host in _suited(placed, node, candidates) if host not in hosts.others)
        only = tuple(sorted(islice(suited, MAX_HOSTS)))
        return Hosts(only) if only else _no_other()

    def _hosts(self, request: PlacementRequest, placed: Placement) -> Iterator[str]:
        """Hosts to which a placement could lead, and there to a GPU that is offered twice."""
        for nodes in self._nodes.values():
            sample = next(iter(nodes.values()))
            takes_model = request.demands.kinds.takes_model(sample.labels.get(GPU_PRODUCT_LABEL))
            if takes_model and admits(sample, placed) and _has_twice(sample, request, placed):
                yield from hosts_of(nodes.values())


def _suited(placed: Placement, node: NodeFact | None, candidates: Candidates) -> Iterator[str]:
    """Hosts of nodes that could hold the pod, first of that on which it is placed."""
    others = islice(candidates.members(), MAX_LOOKED_AT)
    nodes = chain((node,) if node is not None else (), others)
    once = [each for each in nodes if not _has_twice(each, candidates.request, placed)]
    return iter(dict.fromkeys(hosts_of(once)))


def _has_twice(node: NodeFact, request: PlacementRequest, placed: Placement) -> bool:
    """Whether a node has what a placement takes, and a DRA driver offers a part of that too."""
    if request.share.mode_type.gives_instances and request.share.stock is not None:
        return node.is_offered_twice and request.share.stock in dict(node.instances)
    if not placed.indices:
        return node.is_offered_twice and bool(node.pooled)
    is_there = {index for index, _ in node.gpus}.issuperset(placed.indices)
    return is_there and not node.offered_twice.isdisjoint(placed.indices)


def _key(node: NodeFact) -> _Alike:
    return (
        node.offered_twice,
        node.is_offered_twice,
        tuple([index for index, _ in node.gpus]),
        tuple([number for number, _ in node.instances]),
        bool(node.pooled),
        node.labels.get(GPU_PRODUCT_LABEL),
        node.labels.get(GPU_MEMORY_LABEL),
    )


def _no_other() -> Unschedulable:
    return Unschedulable(
        f"on more than {MAX_HOSTS} nodes {TWICE}, and no other node suits: ask the admin to turn one of the"
        " two off (docs/operating/other-systems.md)"
    )
