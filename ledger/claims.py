"""The claim of a share: which offered cards it may take, and whether it has room; the scheduler chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kube.dra import DRIVER, SHARES_OF_CARD
from kube.scheduling import Constraints
from ledger.claim_room import ClaimAsk, ClaimRoomSearch
from ledger.claimed_cards import CardKind, ClaimedCards
from ledger.own_demands import OwnDemands
from ledger.placement.gpu_kinds import named_models
from ledger.placement.node_index import NodeIndex
from ledger.placement.waiting import PendingPods
from ledger.placement_request import Placement, PlacementRequest, Unschedulable
from modes.claim import ClaimedShare, amounts_by_size, are_large_enough, most_sizes, needs_sizes
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


def asked_of(claim: ClaimedShare) -> ClaimAsk:
    """Return what the claim of a share asks for; parts that may be on two cards count as on one."""
    fraction, amounts = claim.fraction, amounts_by_size(claim)
    if fraction.is_whole:
        return ClaimAsk(share=SHARES_OF_CARD, count=fraction.gpus)
    size, amount = min(amounts.items())
    if claim.driver != DRIVER:
        return ClaimAsk(amount, card_mib=size or None, count=fraction.gpus)
    shares = tuple(sorted(amounts.items())) if fraction.mib else ()
    return ClaimAsk(fraction.mib, 0 if shares else amount, shares, count=fraction.gpus)


class ClaimOptions:
    """The claims that pods can have, and whether the offered cards have room for them now."""

    def __init__(self, cards: ClaimedCards, index: NodeIndex, pending: PendingPods) -> None:
        self._cards, self._index, self._pending = cards, index, pending

    def options(self, request: PlacementRequest) -> list[Placement] | Unschedulable:
        """Return the claim of a pod: there is one, and the scheduler chooses its card."""
        found = claimed(request, self._kinds(request))
        return found if isinstance(found, Unschedulable) else [found]

    def wait(self, request: PlacementRequest, placement: Placement) -> int:
        """Return 0 if cards have room for a pod's claim, else 1; 2 while no card is offered.

        As much again must be free for each claim that the scheduler has not tried yet.
        """
        if not self._kinds(request):
            return 2
        return int(request.demands.is_gated or not self._have_room(request, placement))

    def _kinds(self, request: PlacementRequest) -> Mapping[CardKind, int]:
        share = request.share
        return self._cards.kinds(share.driver or "", whole=share.fraction.is_whole)

    def _have_room(self, request: PlacementRequest, placement: Placement) -> bool:
        driver, fraction, kinds = request.share.driver or "", request.share.fraction, request.demands.kinds
        asked = asked_of(ClaimedShare(driver, fraction, placement.cards, kinds))
        search = ClaimRoomSearch(driver, asked, kinds, lambda _: "")
        for node in self._nodes(request, asked):
            search.look_at(node, self._cards.on(node))
            if search.found.fit > self._pending.claiming:
                return True
        return False

    def _nodes(self, request: PlacementRequest, asked: ClaimAsk) -> Iterator[str]:
        """Yield the nodes that a pod accepts, and a card of which may have room for it."""
        share, demands, index = request.share, request.demands, self._index
        index.flush()
        # Comparing the pod's terms with each node would take too long: its author can write hundreds.
        matching, numbers = index.labels.matching(demands.constraints), index.labels.numbers
        own = OwnDemands(Constraints(tolerations=demands.constraints.tolerations))
        wanted = {kind for kind in self._kinds(request) if demands.kinds.takes_model(kind[0])}
        for node, freest in self._cards.most_free().items():
            # Most nodes of a full cluster end here.
            if not any(kind in wanted and asked.may_fit(*free) for kind, free in freest.items()):
                continue
            account, number = index.accounts.get(node), numbers.get(node)
            if account is None or number is None or not matching >> number & 1:
                continue
            fits_beside = account.cpu_free >= share.cpu_milli and account.has_beside(share.memory_bytes, ())
            if fits_beside and not own.why_not(account.fact):
                yield node
