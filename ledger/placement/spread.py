"""Places a replica away from the others of its owner: over nodes first, then over GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ledger.accounts import NodeAccount
from ledger.placement.candidates import Candidates
from ledger.placement.node_class import Found
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction

MAX_COUNTS = 8
"""Distinguished numbers of replicas on one node, the lowest ones: each costs a search of all nodes."""


def best_spread(
    candidates: Candidates, request: PlacementRequest, on_nodes: Mapping[str, int], nodes: int
) -> Found | None:
    """Return the best node among those with room that have the fewest of the owner's replicas.

    Args:
        candidates: the nodes that could ever hold the pod.
        request: the pod's request.
        on_nodes: the owner's replicas by node.
        nodes: total number of nodes; if the owner is on all of them, none without its replicas is searched.
    """
    found = candidates.best(request)
    if found is None or (most := on_nodes.get(found[1].name, 0)) == 0:
        return found
    counts = {*on_nodes.values()} if len(on_nodes) == nodes else {0, *on_nodes.values()}
    for count in sorted(counts)[:MAX_COUNTS]:
        if count >= most:
            break
        fewer = candidates.best(request, _has_replicas(count, on_nodes))
        if fewer is not None:
            return fewer
    return found


def _has_replicas(count: int, on_nodes: Mapping[str, int]) -> Callable[[NodeAccount], bool]:
    return lambda account: on_nodes.get(account.name, 0) == count


def least_used(
    account: NodeAccount, left: Mapping[int, int], fraction: Fraction, owner: str
) -> dict[int, int]:
    """Return the free slices of the GPUs with room that have the fewest of an owner's pods.

    There are as many GPUs as the fraction requests, and further ones with the same number of the owner's
    pods.
    """
    left = {index: free for index, free in left.items() if free >= fraction.slices_on_each}
    used = Counter(
        unit for claim in account.claims.values() if claim.owner == owner for unit, _ in claim.takes
    )
    most = sorted(used[index] for index in left)[fraction.gpus - 1]
    return {index: free for index, free in left.items() if used[index] <= most}
