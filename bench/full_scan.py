"""Choices that ask every node for every pod: what the grouping of nodes is measured against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger.accounts import NodeAccount
from ledger.placement.best_node import score
from ledger.placement.candidates import Candidates
from ledger.placement.choice import Choice
from ledger.placement.cpu_history import PER_SLICE
from ledger.placement.feasibility import obstacle
from ledger.placement.node_groups import Found
from ledger.placement.packing import UNIT
from ledger.placement.shadow_prices import ShadowPrices
from ledger.placement_request import PlacementRequest
from modes.facts import NodeFact


class PlainScan(Choice):
    """The score by its definition: what the node is worth before, and what after."""

    def _best(self, _candidates: Candidates, request: PlacementRequest, prices: ShadowPrices) -> Found | None:
        found: Found | None = None
        for account in self._node_index.accounts.values():
            value = self._score(account, request, prices)
            if value is not None and (found is None or value > found[0]):
                found = value, account
        return found

    def _score(self, account: NodeAccount, request: PlacementRequest, worth: ShadowPrices) -> int | None:
        if account.fact is None or not account.fact.usable or obstacle(account.fact, request) is not None:
            return None
        if account.cpu_free < request.share.cpu_milli or account.memory_free < request.share.memory_bytes:
            return None
        before, prices = _free(account.fact, account.taken), account.worth(worth)
        after = _taken(before, request, prices)
        if after is None:
            return None
        cpu_after = account.cpu_free - request.share.cpu_milli
        unusable_slices = _unusable_slices(sum(before), account.cpu_free, worth) - _unusable_slices(
            sum(after), cpu_after, worth
        )
        by_class = account.node_class.slice_cost if account.node_class is not None else 0
        cost = request.share.fraction.slices * by_class + sum(before) * UNIT // 10**6
        return _fragments(before, prices) - _fragments(after, prices) + unusable_slices - cost


class TunedScan(PlainScan):
    """The product's own arithmetic, which knows what changes without summing up both."""

    def _score(self, account: NodeAccount, request: PlacementRequest, worth: ShadowPrices) -> int | None:
        if account.fact is None or obstacle(account.fact, request) is not None:
            return None
        return score(account, request, worth)


def _free(fact: NodeFact, taken: Mapping[int, int]) -> list[int]:
    return [
        max(0, capacity - taken.get(index, 0)) for index, capacity in fact.gpus if index not in fact.cordoned
    ]


def _taken(before: Sequence[int], request: PlacementRequest, worth: ShadowPrices) -> list[int] | None:
    after, slices = list(before), request.share.fraction.slices_on_each
    others = set(range(len(after)))
    for _ in range(request.share.fraction.gpus):
        fitting = [position for position in sorted(others) if after[position] >= slices]
        if not fitting:
            return None
        least = min(fitting, key=lambda at: (worth.gpu[after[at]] - worth.gpu[after[at] - slices], after[at]))
        after[least] -= slices
        others.remove(least)
    return after


def _fragments(free: Sequence[int], worth: ShadowPrices) -> int:
    usable = sum(worth.gpu[slices] for slices in free) + worth.idle[free.count(worth.slices_per_gpu)]
    return sum(free) * UNIT - usable


def _unusable_slices(free: int, cpu_free: int, worth: ShadowPrices) -> int:
    return sum(max(0, free * PER_SLICE - cpu_free * price) for price in worth.cpu)
