"""Where a replica goes that is to be away from the others of its owner: over nodes first, then over GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ledger.accounts import NodeAccount
from ledger.placement.best_node import best
from ledger.placement.candidates import Candidates
from ledger.placement.node_groups import Found
from ledger.placement.request_history import ShadowPrices
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction

MAX_COUNTS = 8
"""Numbers of replicas on one node that are told apart, the least ones: each costs a search of all nodes."""


def best_spread(
    candidates: Candidates,
    request: PlacementRequest,
    prices: ShadowPrices,
    on_nodes: Mapping[str, int],
    nodes: int,
) -> Found | None:
    """Return the best of the nodes with room that have the fewest of the owner's replicas.

    Args:
        candidates: the nodes that could hold the pod.
        request: of the pod.
        prices: of free slices now.
        on_nodes: the owner's replicas by node.
        nodes: how many nodes there are; if the owner is on all, none without its replicas is looked for.
    """
    found = best(candidates, request, prices)
    if found is None or (most := on_nodes.get(found[1].name, 0)) == 0:
        return found
    counts = {*on_nodes.values()} if len(on_nodes) == nodes else {0, *on_nodes.values()}
    for count in sorted(counts)[:MAX_COUNTS]:
        if count >= most:
            break
        fewer = best(candidates, request, prices, has_replicas(count, on_nodes))
        if fewer is not None:
            return fewer
    return found


def has_replicas(count: int, on_nodes: Mapping[str, int]) -> Callable[[NodeAccount], bool]:
    """Return whether a node has just so many of an owner's replicas."""
    return lambda account: on_nodes.get(account.name, 0) == count


def least_used(
    account: NodeAccount, left: Mapping[int, int], fraction: Fraction, owner: str
) -> dict[int, int]:
    """Return of what is left by index that of the GPUs with room that have fewest of an owner's pods.

    As many as the fraction asks for, and all that have no more of the owner's pods than these.
    """
    left = {index: free for index, free in left.items() if free >= fraction.slices_on_each}
    used = Counter(
        index for claim in account.claims.values() if claim.owner == owner for index, _ in claim.gpus
    )
    most = sorted(used[index] for index in left)[fraction.gpus - 1]
    return {index: free for index, free in left.items() if used[index] <= most}
