"""A choice that compares every node for every pod: what the grouping of nodes is measured against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger.accounts import NodeAccount
from ledger.placement.candidates import Candidates
from ledger.placement.choice import Choice
from ledger.placement.cpu import unusable_slices
from ledger.placement.feasibility import obstacle
from ledger.placement.node_class import Found
from ledger.placement.prices import UNIT, Prices
from ledger.placement_request import PlacementRequest
from modes.facts import NodeFact


class PlainScan(Choice):
    """The score by its definition: what the node is worth before, and what after."""

    def _best(self, _candidates: Candidates, request: PlacementRequest) -> Found | None:
        found: Found | None = None
        for account in self._index.accounts.values():
            value = self._score(account, request)
            if value is not None and (found is None or value > found[0]):
                found = value, account
        return found

    def _score(self, account: NodeAccount, request: PlacementRequest) -> int | None:
        node_class = self._index.class_of(account.name)
        if account.fact is None or node_class is None or not account.fact.usable:
            return None
        if obstacle(account.fact, request) is not None:
            return None
        if account.cpu_free < request.share.cpu_milli or account.memory_free < request.share.memory_bytes:
            return None
        before, prices = _free(account.fact, account.taken), node_class.prices
        after = _taken(before, request, prices)
        if after is None:
            return None
        cpu_after = account.cpu_free - request.share.cpu_milli
        used_up = unusable_slices(sum(before), account.cpu_free, prices.cpu) - unusable_slices(
            sum(after), cpu_after, prices.cpu
        )
        return _fragments(before, prices) - _fragments(after, prices) + used_up - sum(before) * UNIT // 10**6


def _free(fact: NodeFact, taken: Mapping[int, int]) -> list[int]:
    return [
        max(0, capacity - taken.get(index, 0)) for index, capacity in fact.gpus if index not in fact.cordoned
    ]


def _taken(before: Sequence[int], request: PlacementRequest, worth: Prices) -> list[int] | None:
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


def _fragments(free: Sequence[int], worth: Prices) -> int:
    usable = sum(worth.gpu[slices] for slices in free) + worth.idle[free.count(worth.slices_per_gpu)]
    return sum(free) * UNIT - usable
