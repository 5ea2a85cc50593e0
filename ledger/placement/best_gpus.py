"""Chooses the GPUs of a pod on a node with room."""

from __future__ import annotations

from ledger.accounts import NodeAccount
from ledger.placement.cards import best_set, card_sets, demand
from ledger.placement.node_class import NodeClass
from ledger.placement.numa import on_fewest
from ledger.placement.prices import best_gaps, gpus_of_split
from ledger.placement.spread import least_used
from ledger.placement_request import PlacementRequest


def best_gpus(account: NodeAccount, node_class: NodeClass, request: PlacementRequest) -> tuple[int, ...]:
    """Return the GPUs of a node with room that cost least, by the prices of free slices.

    Among GPUs that cost the same, those that span the fewest NUMA nodes come first, then the lowest indices.
    For containers that must use different GPUs, the result has the GPU of each container.
    """
    fraction, prices, node = request.share.fraction, node_class.prices, node_class.sample
    left = request.share.mode_type.choosable(account.left)
    if not left:
        return ()
    sets = card_sets(node, demand(request))
    if sets is not None and (found := best_set(left, sets, fraction, prices)) is not None:
        left = {index: slices for index, slices in left.items() if index in found[1]}
    if fraction.is_apart:
        chosen = gpus_of_split(tuple(left.values()), fraction, prices) or ()
        return tuple([list(left)[position] for position in chosen])
    if request.is_spread and not fraction.is_whole:
        left = least_used(account, left, fraction, request.accounting.owner)
    if fraction.gpus > 1 and account.fact is not None:
        left = on_fewest(left, account.fact, fraction, prices)
    gpus, wanted = list[int](), best_gaps(left.values(), fraction, prices) or []
    for index, slices in left.items():
        if slices in wanted:
            wanted.remove(slices)
            gpus.append(index)
    return tuple(sorted(gpus))
