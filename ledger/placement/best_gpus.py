"""Which GPUs of a node with room a pod gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ledger.accounts import NodeAccount
from ledger.placement.request_history import ShadowPrices
from ledger.placement.spread import least_used
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction
from modes.mode import Mode
from modes.packing import best_hole, best_holes, gpus_of_split


def best_gpus(
    account: NodeAccount, mode: type[Mode], request: PlacementRequest, prices: ShadowPrices
) -> tuple[int, ...]:
    """Return the GPUs of a node with room that lose the least worth, then the lowest.

    Of equals those come first that no stale reservation named. Of containers that are to be on different
    GPUs, the GPU of each.
    """
    fraction, left = request.fraction, mode.choosable(account.left)
    if not left:
        return ()
    if account.stale:
        left = {index: left[index] for index in sorted(left, key=lambda index: account.stale.get(index, 0))}
    if fraction.is_apart:
        chosen = gpus_of_split(tuple(left.values()), fraction, prices) or ()
        return tuple([list(left)[position] for position in chosen])
    if request.place == "spread" and request.owner and not fraction.is_whole:
        left = least_used(account, left, fraction, request.owner)
    if fraction.parts != 1:
        return _best_several(left, fraction, prices)
    hole, gpus = best_hole(left.values(), fraction.slices_on_each, prices), fraction.gpus
    if gpus == 1:
        return (list(left)[list(left.values()).index(hole)],)
    return tuple(sorted([index for index, slices in left.items() if slices == hole][:gpus]))


def _best_several(left: Mapping[int, int], fraction: Fraction, prices: ShadowPrices) -> tuple[int, ...]:
    wanted = Counter(best_holes(tuple(left.values()), fraction, prices))
    chosen = []
    for index, slices in left.items():
        if wanted[slices]:
            wanted[slices] -= 1
            chosen.append(index)
    return tuple(sorted(chosen))
