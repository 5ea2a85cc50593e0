"""Keeps pods off nodes whose GPUs a DRA driver offers too.

The scheduler counts only what the device plugin offers, and does not know of DRA claims on the same GPUs. So
a pod that it could bind to such a node excludes the node's host.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.placement.candidates import Candidates
from ledger.placement.feasibility import TWICE
from ledger.placement.odd_nodes import MAX_LOOKED_AT, Hosts, hosts_of
from ledger.placement.pool_hosts import admits
from ledger.placement_request import MAX_HOSTS, Placement, PlacementRequest, Unschedulable
from modes.facts import NodeFact
from modes.units import POOL

_Alike = tuple[frozenset[int], bool, tuple[int, ...], tuple[int, ...], bool, str | None, str | None]
"""Facts that decide whether a placement can lead to GPUs that are offered twice: GPUs and labels."""


class OfferedTwice:
    """Such nodes of a cluster, grouped by equal facts."""

    def __init__(self) -> None:
        self._nodes: dict[_Alike, dict[str, NodeFact]] = {}

    def add(self, node: NodeFact) -> None:
        """Add a node, if its GPUs are offered twice; the inverse of `remove`."""
        if node.is_offered_twice or node.offered_twice:
            self._nodes.setdefault(_key(node), {})[node.name] = node

    def remove(self, node: NodeFact) -> None:
        """Remove a node."""
        key = _key(node)
        nodes = self._nodes.get(key, {})
        if nodes.pop(node.name, None) is not None and not nodes:
            del self._nodes[key]

    def shut_out(
        self, hosts: Hosts, placed: Placement, node: NodeFact | None, candidates: Candidates
    ) -> Hosts | Unschedulable:
        """Return the hosts that a pod must require or exclude, so that it gets no GPU that is offered twice.

        If there are too many hosts to exclude, the pod requires some that fit. If none fits, it is
        unschedulable.

        Args:
            hosts: hosts that it must require or exclude for other reasons; those in `only` fit.
            placed: the placement, with its labels.
            node: its node; None if it waits.
            candidates: the nodes that could ever hold the pod.
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
        """Yield hosts on which a placement could lead to a GPU that is offered twice."""
        for nodes in self._nodes.values():
            sample = next(iter(nodes.values()))
            takes_model = request.demands.kinds.takes_model(sample.labels.get(GPU_PRODUCT_LABEL))
            if takes_model and admits(sample, placed) and _has_twice(sample, request, placed):
                yield from hosts_of(nodes.values())


def _suited(placed: Placement, node: NodeFact | None, candidates: Candidates) -> Iterator[str]:
    """Yield hosts of nodes that could hold the pod, that of its placement first."""
    others = islice(candidates.members(), MAX_LOOKED_AT)
    nodes = chain((node,) if node is not None else (), others)
    once = [each for each in nodes if not _has_twice(each, candidates.request, placed)]
    return iter(dict.fromkeys(hosts_of(once)))


def _has_twice(node: NodeFact, request: PlacementRequest, placed: Placement) -> bool:
    """Whether a node has what a placement takes, and a DRA driver offers part of it too."""
    unit = request.share.resource_unit
    if unit is not POOL:
        return node.is_offered_twice and unit in node.offered()
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
        f"on more than {MAX_HOSTS} nodes {TWICE}, and no other node fits: ask the admin to turn one of the"
        " two off (docs/operating/other-systems.md)"
    )
