"""Finds hosts that a pod of mode pooled must exclude: it would get slices of several GPUs there.

The kubelet chooses the GPUs, and the scheduler only counts the slices of a node. Our agent rejects a share
that spans GPUs, and the pod then fails for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.accounts import NodeAccount
from ledger.placement.candidates import Candidates
from ledger.placement.feasibility import takes_now
from ledger.placement.odd_nodes import Hosts, hosts_of
from ledger.placement_request import MAX_HOSTS, Placement, PlacementRequest, Unschedulable
from ledger.pool_room import has_room
from modes.facts import NodeFact
from modes.fraction import Fraction

_Left = tuple[int, ...]
"""Free slices of each card of a node, or their sum if the cards are unknown."""


def pool_hosts(
    request: PlacementRequest, placement: Placement, node: NodeFact | None, candidates: Candidates
) -> Hosts | Unschedulable:
    """Return the hosts that a pod must require or exclude, or a refusal if every node would fail it now.

    Args:
        request: the pod's request.
        placement: the placement, with its labels.
        node: its node; None if it waits.
        candidates: the nodes that could ever hold the pod.
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
    """Whether a node has the GPU labels that a placement requires."""
    values, product = placement.memory_values, node.labels.get(GPU_PRODUCT_LABEL)
    return (not values or node.labels.get(GPU_MEMORY_LABEL) in values) and placement.model in {None, product}


def _in_no_one_piece(fraction: Fraction) -> Unschedulable:
    """The refusal: the pod cannot wait, as the scheduler would bind it and the agent would fail it."""
    slices = f"{fraction.slices_on_each} free slices"
    lack = (
        f"no GPU has {slices}"
        if fraction.gpus == 1
        else f"no node has {fraction.gpus} GPUs with {slices} each"
    )
    return Unschedulable(
        f"{lack} now, and a share that spans more GPUs would fail: try again later, or request less",
        is_for_now=True,
    )


def _nodes(candidates: Candidates, are_meant: Callable[[_Left], bool]) -> Iterator[NodeFact]:
    for left, accounts in _by_left(candidates):
        if are_meant(left):
            yield from [each.fact for each in accounts if each.fact is not None]


def _by_left(candidates: Candidates) -> Iterator[tuple[_Left, Iterable[NodeAccount]]]:
    """Yield the nodes that take pods now, by the free slices of their cards."""
    if candidates.few is not None:
        for account in candidates.few:
            if account.fact is not None and takes_now(account.fact, candidates.request):
                yield account.pool_state(), (account,)
        return
    for groups in candidates.groups:
        for left, accounts in groups.states():
            yield left, filter(candidates.holds, accounts)
