"""Hosts that a pod of mode pooled must shut out: there the kubelet would give it slices of several GPUs.

The scheduler counts the slices of a node, and binds a pod where they are enough. Where our agent offers them,
it refuses a share that spans GPUs, and the pod fails for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.accounts import NodeAccount
from ledger.facts import NodeFact
from ledger.placement.candidates import Candidates
from ledger.placement.feasibility import takes_now
from ledger.placement.odd_nodes import Hosts, hosts_of
from ledger.placement_request import MAX_HOSTS, Placement, PlacementRequest, Unschedulable
from modes.fraction import Fraction
from modes.pool_room import has_room

_Left = tuple[int, ...]
"""Slices left on each card of a node, or of all together where nobody tells."""


def pool_hosts(
    request: PlacementRequest, placement: Placement, node: NodeFact | None, candidates: Candidates
) -> Hosts | Unschedulable:
    """Return what a pod must say of hosts; why it is denied, where every node would fail it now.

    Args:
        request: of the pod.
        placement: with the labels that bind it.
        node: where it is placed; None where it waits.
        candidates: the nodes that could hold it.
    """
    fraction = request.share.fraction

    def spans(left: _Left) -> bool:
        return len(left) > 1 and sum(left) >= fraction.slices and not has_room(left, fraction)

    def bound(facts: Iterable[NodeFact]) -> Iterator[NodeFact]:
        return (fact for fact in facts if admits(fact, placement))

    spanning = list(islice(bound(_nodes(candidates, spans)), MAX_HOSTS + 1))
    if len(spanning) <= MAX_HOSTS:
        admitted = sum([count for fact, count in candidates.samples() if admits(fact, placement)])
        if node is None and spanning and len(spanning) >= admitted:
            return _in_no_one_piece(fraction)
        return Hosts((), tuple(sorted(hosts_of(spanning))))
    others = bound(_nodes(candidates, lambda left: not spans(left)))
    first = (node,) if node is not None else ()
    only = dict.fromkeys(hosts_of(chain(first, islice(others, MAX_HOSTS))))
    return Hosts(tuple(sorted(islice(only, MAX_HOSTS)))) if only else _in_no_one_piece(fraction)


def admits(node: NodeFact, placement: Placement) -> bool:
    """Whether the labels of GPUs that bind a pod let it go to a node."""
    values, product = placement.memory_values, node.labels.get(GPU_PRODUCT_LABEL)
    return (not values or node.labels.get(GPU_MEMORY_LABEL) in values) and placement.model in {None, product}


def _in_no_one_piece(fraction: Fraction) -> Unschedulable:
    """Say that the pod cannot wait: the scheduler would bind it at once, and the agent would fail it."""
    have = "no GPU has" if fraction.gpus == 1 else f"no node has {fraction.gpus} GPUs with"
    return Unschedulable(
        f"{have} {fraction.slices_on_each} slices left in one piece now, and a share in more pieces would"
        " fail: try again later, or ask for less",
        is_for_now=True,
    )


def _nodes(candidates: Candidates, are_meant: Callable[[_Left], bool]) -> Iterator[NodeFact]:
    for left, accounts in _by_left(candidates):
        if are_meant(left):
            yield from [each.fact for each in accounts if each.fact is not None]


def _by_left(candidates: Candidates) -> Iterator[tuple[_Left, Iterable[NodeAccount]]]:
    """Nodes that take pods now, by what is left on their cards."""
    if candidates.few is not None:
        for account in candidates.few:
            if account.fact is not None and takes_now(account.fact, candidates.request):
                yield candidates.mode.free(account, None), (account,)
        return
    for groups in candidates.groups:
        for left, accounts in groups.states():
            yield left, filter(candidates.holds, accounts)
