"""Chooses the best node for a pod among those that have room now."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ledger.accounts import NodeAccount
from ledger.placement.candidates import Candidates
from ledger.placement.cards import best_set, card_sets, demand
from ledger.placement.counting import counting
from ledger.placement.cpu_score import gains, taken_up
from ledger.placement.feasibility import takes_now
from ledger.placement.node_groups import LEAST, MOST, Found, Search
from ledger.placement.shadow_prices import ShadowPrices
from ledger.placement_request import PlacementRequest

_NOBODY = NodeAccount("")
"""The node to beat when a minimum score is set; its name sorts before all others."""


def best(
    candidates: Candidates,
    request: PlacementRequest,
    prices: ShadowPrices,
    only: Callable[[NodeAccount], bool] | None = None,
    least: int = LEAST,
) -> Found | None:
    """The best node of a selection and its score; None if none has room. Ties always go to the same node.

    A node is only chosen if `only` returns True for it (None: every node) and its score is at least `least`.
    """
    if candidates.few is not None:
        few = filter(only, candidates.few) if only is not None else candidates.few
        return _at_least(least, _best_of(few, request, prices))
    if only is None:
        search = candidates.search(request, prices)
    else:
        search = Search(request, prices, _both(candidates.accepts, only))
    found: Found | None = (least - 1, _NOBODY) if least > LEAST else None
    key, needed = search.priced_key, max(LEAST, least - search.most_gained)
    for groups in candidates.groups:
        # Skip classes without room, and those that cannot win even with the best CPU score.
        if groups.tops.get(key, MOST) >= needed:
            found = groups.best(search, found)
            if found is not None:
                needed = found[0] - search.most_gained
    return _at_least(least, found)


def _at_least(least: int, found: Found | None) -> Found | None:
    return found if found is not None and found[0] >= least else None


def score(account: NodeAccount, request: PlacementRequest, prices: ShadowPrices) -> int | None:
    """The score of one node for a pod, by its GPUs and its CPU; None if it has no room now."""
    if account.fact is None or not takes_now(account.fact, request):
        return None
    share = request.share
    if account.cpu_free < share.cpu_milli or account.memory_free < share.memory_bytes:
        return None
    mode, counted = share.mode_type, counting(share.mode_type)
    free, worth = counted.free(account, share.resource_unit), account.worth(prices)
    sets = card_sets(account.fact, demand(request)) if account.fact.cards else None
    if sets is None:
        base = counted.score(free, share.fraction, worth)
    else:
        found = best_set(account, sets, share.fraction, worth)
        base = found[0] if found is not None else None
    if base is None:
        return None
    if mode.prices_node_classes and account.node_class is not None:
        base -= share.fraction.slices * account.node_class.slice_cost
    pod = gains(share.fraction.slices, share.cpu_milli, prices)
    return base + taken_up(sum(free), account.cpu_free, pod)


def _both(
    one: Callable[[NodeAccount], bool] | None, other: Callable[[NodeAccount], bool]
) -> Callable[[NodeAccount], bool]:
    if one is None:
        return other
    return lambda account: other(account) and one(account)


def _best_of(
    accounts: Iterable[NodeAccount], request: PlacementRequest, prices: ShadowPrices
) -> Found | None:
    found: Found | None = None
    for account in accounts:
        value = score(account, request, prices)
        if value is not None and (found is None or value > found[0]):
            found = value, account
    return found
