"""Which sizes of the offered cards the claim of a share may take; the scheduler chooses the card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ledger.claimed_cards import CardKind
from ledger.placement.gpu_kinds import named_models
from ledger.placement_request import Placement, PlacementRequest, Unschedulable
from modes.claim import are_large_enough, most_sizes, needs_sizes
from modes.gpu_kinds import EVERY_KIND


def needs_cards(request: PlacementRequest) -> bool:
    """Whether the claim of a pod depends on the sizes or the kinds of the cards that are offered."""
    share = request.share
    return request.demands.kinds != EVERY_KIND or needs_sizes(share.fraction, share.driver)


def claimed(request: PlacementRequest, cards: Mapping[CardKind, int]) -> Placement | Unschedulable:
    """Return the sizes of cards that a pod's claim may take; none if it asks for the same of any card.

    The smallest come first, so that larger cards stay free for those who need them. If there are more than a
    claim can list, the smallest and the most frequent ones are taken: smaller cards than all listed ones are
    taken whole. A limit that is written into the pod needs one size, the most frequent.
    """
    share, demands = request.share, request.demands
    known = Counter[int]()
    for (model, mib), number in cards.items():
        if demands.kinds.takes_model(model):
            known[mib] += number
    if cards and not known:
        why = f"DRA driver {share.driver} states no model of its cards: leave gpu-model out"
        if models := named_models(model for model, _ in cards):
            why = f"no card has one of its models: there are {models}; fix the annotation"
        return Unschedulable(why)
    if demands.assume is not None and not cards:
        known[demands.assume.gpu_mib] = 1
    least = max(1, demands.kinds.min_mib, share.fraction.asked_mib())
    large = [mib for mib in known if mib >= least]
    sizes = [mib for mib in large if are_large_enough(share.fraction, (mib,))]
    if large and not sizes:
        return Unschedulable(f"the share is less than 1 MiB of each card, the largest has {max(large)}")
    if known and not sizes:
        return Unschedulable(f"no card has {least} MiB of memory, the largest has {max(known)}")
    if not needs_sizes(share.fraction, share.driver):
        return Placement((), 0, ())
    if not sizes:
        return Unschedulable(f"DRA driver {share.driver} offers no card yet, and the policy assumes none")
    most = most_sizes(share.fraction, share.driver)
    smallest = set() if share.writes_limits else {min(sizes)}
    frequent = sorted({*sizes} - smallest, key=lambda mib: (-known[mib], mib))[: most - len(smallest)]
    chosen = sorted({*smallest, *frequent})
    return Placement((), chosen[0] if share.writes_limits else 0, (), cards=tuple(chosen))
