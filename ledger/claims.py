"""The cards that DRA drivers offer, by size: which of them the claim of a share may take.

The scheduler counts what is free on a card and chooses it. Nothing here is an account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ledger.placement_request import Placement, PlacementRequest, Unschedulable
from modes.claim import MAX_SIZES, are_large_enough, needs_sizes

MAX_OFFERS = 65_536
"""ResourceSlices that are kept."""


class OfferedCards:
    """How many cards of which MiB each DRA driver offers, by ResourceSlice."""

    def __init__(self) -> None:
        self._offers: dict[str, tuple[str, Mapping[int, int]]] = {}
        self._sizes: dict[str, Counter[int]] = {}

    @property
    def names(self) -> list[str]:
        """Names of the ResourceSlices."""
        return list(self._offers)

    def put(self, name: str, driver: str, cards: Mapping[int, int]) -> None:
        """Set the cards of one ResourceSlice, as their number by MiB; the inverse of `remove`.

        A ResourceSlice beyond MAX_OFFERS is ignored.
        """
        self.remove(name)
        if cards and len(self._offers) < MAX_OFFERS:
            self._offers[name] = driver, cards
            self._sizes.setdefault(driver, Counter()).update(cards)

    def remove(self, name: str) -> None:
        """Forget a ResourceSlice."""
        driver, cards = self._offers.pop(name, ("", {}))
        for mib, number in cards.items():
            sizes = self._sizes[driver]
            sizes[mib] -= number
            if not sizes[mib]:
                del sizes[mib]

    def sizes(self, driver: str) -> Mapping[int, int]:
        """Return how many cards of which MiB a driver offers."""
        return self._sizes.get(driver, {})


def needs_cards(request: PlacementRequest) -> bool:
    """Whether the claim of a pod depends on the sizes of the cards that are offered."""
    return request.demands.existing is None and needs_sizes(request.share.fraction)


def claimed(request: PlacementRequest, cards: Mapping[int, int]) -> Placement | Unschedulable:
    """Return the sizes of cards that a pod's claim may take.

    The smallest come first, so that larger cards stay free for those who need them. If there are more than a
    claim can list, the most frequent ones are taken. A limit that is written into the pod needs one size.

    Args:
        request: a request in a mode of claims.
        cards: number of offered cards by MiB.
    """
    share, demands = request.share, request.demands
    existing = demands.existing
    if existing is not None:
        return existing
    assumed = Counter({demands.assume.gpu_mib: 1} if demands.assume is not None else {})
    known = cards or assumed
    least = max(1, demands.kinds.min_mib, share.fraction.mib)
    sizes = [mib for mib in known if mib >= least and are_large_enough(share.fraction, (mib,))]
    if known and not sizes:
        return Unschedulable(f"no card has {least} MiB of memory, the largest has {max(known)}")
    if not needs_sizes(share.fraction):
        return Placement((), 0, ())
    if not sizes:
        return Unschedulable(f"DRA driver {share.driver} offers no card yet, and the policy assumes none")
    most = 1 if share.writes_limits else MAX_SIZES
    chosen = sorted(sorted(sizes, key=lambda mib: (-known[mib], mib))[:most])
    return Placement((), chosen[0] if share.writes_limits else 0, (), cards=tuple(chosen))
