"""Hosts that a pod of mode pooled must shut out: there the kubelet would give it slices of several GPUs.

The scheduler counts the slices of a node, and binds a pod where they are enough. Where our agent offers them,
it refuses a share that spans GPUs, and the pod fails for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from ledger.accounts import NodeAccount
from ledger.placement.candidates import Candidates
from ledger.placement.feasibility import takes_now
from ledger.placement.odd_nodes import Hosts, host_of
from ledger.placement_request import MAX_HOSTS, PlacementRequest, Unschedulable
from modes.pooled import has_room

_Left = tuple[int, ...]
"""Slices left on each card of a node, or of all together where nobody tells."""


def pool_hosts(
    request: PlacementRequest, node: NodeAccount | None, candidates: Candidates
) -> Hosts | Unschedulable:
    """Return what a pod must say of hosts; why it is denied, where every node would fail it now.

    Args:
        request: of the pod.
        node: where it is placed; None where it waits.
        candidates: the nodes that could hold it.
    """
    fraction = request.fraction

    def spans(left: _Left) -> bool:
        return len(left) > 1 and sum(left) >= fraction.slices and not has_room(left, fraction)

    spanning = list(islice(_hosts(candidates, spans), MAX_HOSTS + 1))
    if len(spanning) <= MAX_HOSTS and (node is not None or len(spanning) < candidates.nodes.bit_count()):
        return Hosts((), tuple(sorted(spanning)))
    others = _hosts(candidates, lambda left: not spans(left))
    first = (host_of(node.fact),) if node is not None and node.fact is not None else ()
    only = tuple(islice(dict.fromkeys(chain(first, islice(others, MAX_HOSTS))), MAX_HOSTS))
    return Hosts(tuple(sorted(only))) if only else _in_no_one_piece(request)


def _in_no_one_piece(request: PlacementRequest) -> Unschedulable:
    return Unschedulable(
        f"no GPU has {request.fraction.slices_on_each} slices left in one piece, and a share of several would"
        " fail: try again later, or ask for less"
    )


def _hosts(candidates: Candidates, are_meant: Callable[[_Left], bool]) -> Iterator[str]:
    for left, accounts in _by_left(candidates):
        if are_meant(left):
            yield from [host_of(each.fact) for each in accounts if each.fact is not None]


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
