"""Chooses the GPUs of a pod on a node with room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ledger.accounts import NodeAccount
from ledger.placement.cards import best_set, card_sets, demand
from ledger.placement.numa import asks_for_several, numa_nodes, on_fewest
from ledger.placement.packing import best_gap, best_gaps, gpus_of_split
from ledger.placement.shadow_prices import ShadowPrices
from ledger.placement.spread import least_used
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction
from modes.mode import Mode


def best_gpus(
    account: NodeAccount, mode: type[Mode], request: PlacementRequest, prices: ShadowPrices
) -> tuple[int, ...]:
    """Return the GPUs of a node with room that cost least, by the prices of free slices.

    Among GPUs that cost the same, those that span the fewest NUMA nodes come first, then the lowest indices.
    For containers that must use different GPUs, the result has the GPU of each container.
    """
    fraction, left, worth = request.share.fraction, mode.choosable(account.left), account.worth(prices)
    if not left:
        return ()
    left = _taken_by(request, account, left, worth)
    if fraction.is_apart:
        chosen = gpus_of_split(tuple(left.values()), fraction, worth) or ()
        return tuple([list(left)[position] for position in chosen])
    if request.is_spread and not fraction.is_whole:
        left = least_used(account, left, fraction, request.accounting.owner)
    if asks_for_several(fraction) and (nodes := numa_nodes(account.fact)):
        left = on_fewest(left, nodes, fraction, worth)
    if fraction.parts != 1:
        return _best_several(left, fraction, worth)
    gap, gpus = best_gap(left.values(), fraction.slices_on_each, worth), fraction.gpus
    if gpus == 1:
        return (list(left)[list(left.values()).index(gap)],)
    return tuple(sorted([index for index, slices in left.items() if slices == gap][:gpus]))


def _taken_by(
    request: PlacementRequest, account: NodeAccount, left: Mapping[int, int], prices: ShadowPrices
) -> Mapping[int, int]:
    """Return the free slices of the GPUs that the pod accepts: on an odd node maybe not all."""
    fact = account.fact
    sets = card_sets(fact, demand(request)) if fact is not None and fact.cards else None
    found = best_set(account, sets, request.share.fraction, prices) if sets is not None else None
    return left if found is None else {index: left[index] for index in left if index in found[1]}


def _best_several(left: Mapping[int, int], fraction: Fraction, prices: ShadowPrices) -> tuple[int, ...]:
    wanted = Counter(best_gaps(tuple(left.values()), fraction, prices))
    chosen = []
    for index, slices in left.items():
        if wanted[slices]:
            wanted[slices] -= 1
            chosen.append(index)
    return tuple(sorted(chosen))
