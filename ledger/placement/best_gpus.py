"""Chooses the GPUs of a pod on a node with room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations

from ledger.accounts import NodeAccount
from ledger.placement.cards import best_set, card_sets, demand
from ledger.placement.node_class import NodeClass
from ledger.placement.prices import Prices, best_gaps, gpus_of_split, lost
from ledger.placement_request import PlacementRequest
from modes.facts import NodeFact
from modes.fraction import Fraction

MAX_NUMA_NODES = 8
"""NUMA nodes of one machine that are distinguished: at most 254 sets of them are compared per node."""
_Free = Mapping[int, int]
"""Free slices by GPU index, of the GPUs that the pod accepts."""


def best_gpus(account: NodeAccount, node_class: NodeClass, request: PlacementRequest) -> tuple[int, ...]:
    """Return the GPUs of a node with room that cost least, by the prices of free slices.

    Among GPUs that cost the same, those that span the fewest NUMA nodes come first, then the lowest indices.
    For containers that must use different GPUs, the result has the GPU of each container.
    """
    fraction, prices = request.share.fraction, node_class.prices
    left = request.share.mode_type.choosable(account.left)
    if not left:
        return ()
    sets = card_sets(node_class.sample, demand(request))
    if sets is not None and (found := best_set(left, sets, fraction, prices)) is not None:
        left = {index: slices for index, slices in left.items() if index in found[1]}
    if fraction.is_apart:
        chosen = gpus_of_split(tuple(left.values()), fraction) or ()
        return tuple([list(left)[position] for position in chosen])
    if request.is_spread and not fraction.is_whole:
        left = _least_used(account, left, fraction, request.accounting.owner)
    if fraction.gpus > 1 and account.fact is not None:
        left = _on_fewest(left, account.fact, fraction, prices)
    gpus, wanted = list[int](), best_gaps(left.values(), fraction, prices) or []
    for index, slices in left.items():
        if slices in wanted:
            wanted.remove(slices)
            gpus.append(index)
    return tuple(sorted(gpus))


def _least_used(account: NodeAccount, left: _Free, fraction: Fraction, owner: str) -> _Free:
    """Return as many GPUs with room as requested with the fewest of an owner's pods, and their equals."""
    left = {index: free for index, free in left.items() if free >= fraction.slices_on_each}
    claims = [claim for claim in account.claims.values() if claim.owner == owner]
    used = Counter(unit for claim in claims for unit, _ in claim.takes)
    most = sorted(used[index] for index in left)[fraction.gpus - 1]
    return {index: free for index, free in left.items() if used[index] <= most}


def _on_fewest(left: _Free, node: NodeFact, fraction: Fraction, prices: Prices) -> _Free:
    """Return the GPUs on the fewest NUMA nodes that cost no more than the best of all.

    Each NUMA node has some of the machine's CPUs and memory, and is nearer to some of its GPUs. This only
    breaks ties: it never costs a pod its place, nor other pods room.
    """
    known = {index: numa for (index, _), numa in zip(node.cards, node.card_numa, strict=False)}
    # A GPU whose NUMA node is unknown counts as on one of its own.
    by_gpu = {index: known.get(index, -1 - index) for index in left if left[index] >= fraction.slices_on_each}
    numa_nodes = sorted({*by_gpu.values()})
    if not known or not 1 < len(numa_nodes) <= MAX_NUMA_NODES:
        return left
    least = lost(tuple(left.values()), fraction, prices)
    for size in range(1, min(fraction.gpus, len(numa_nodes))):
        for chosen in combinations(numa_nodes, size):
            near = {index: left[index] for index, numa in by_gpu.items() if numa in chosen}
            if lost(tuple(near.values()), fraction, prices) == least:
                return near
    return left
