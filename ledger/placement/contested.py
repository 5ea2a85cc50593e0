"""Finds GPUs that are full only because of reservations, whose pods may never come.

If no node has room, a pod gets an index to wait for, and keeps it. An index that reservations fill is then
better than one that pods fill. Reservations of the pod's own namespace count like pods, so that many pods
that one namespace creates at once spread. If a namespace's pods do not come in time, its reservations count
for nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from ledger.accounts import NodeAccount
from ledger.placement.best_gpus import best_gpus
from ledger.placement.best_node import score
from ledger.placement.candidates import Candidates
from ledger.placement.cards import card_sets, demand
from ledger.placement.counting import counting
from ledger.placement.memory_values import MemoryValues
from ledger.placement.node_index import NodeIndex
from ledger.placement.pending import PendingPods
from ledger.placement.pick_index import PickedIndex
from ledger.placement.shadow_prices import ShadowPrices
from ledger.placement_request import PlacementRequest
from modes.units import Unit

MAX_LOOKED_AT, MAX_WITH_ROOM = 4096, 64
"""Reservations that are checked for one pod, node by node, and nodes with room after which the search
ends."""
_PRECISION = 10**6
_Place = tuple[int, tuple[int, ...], int]
"""MiB of the share, the indices, MiB of one GPU."""


class Contested:
    """Finds room that is only reserved."""

    def __init__(
        self,
        node_index: NodeIndex,
        pending: PendingPods,
        values: MemoryValues,
        are_kept: Callable[[str], bool],
    ) -> None:
        """`are_kept` says whether a namespace's reservations usually become pods."""
        self._node_index = node_index
        self.pending = pending
        self._values = values
        self._are_kept = are_kept
        self.is_on = True
        """Whether reservations may be doubted; not without a watch that reports pods."""

    def pick(
        self, candidates: Candidates, request: PlacementRequest, prices: ShadowPrices
    ) -> PickedIndex | None:
        """Return the index with the most room relative to its queue; None if pods fill everything."""
        if not (self.is_on and self._node_index.reserved):
            return None
        namespace = request.accounting.namespace
        own = namespace if self._are_kept(namespace) else None
        found = Counter[_Place]()
        for account in self._with_room(candidates, request, prices, own):
            for place, pods in _places(account, request, prices):
                found[place] += pods
        ranked = list(self._ranked(found, request, own))
        if not ranked:
            return None
        _, (_, indices, gpu_mib) = min(ranked)
        return PickedIndex(indices, gpu_mib)

    def _with_room(
        self, candidates: Candidates, request: PlacementRequest, prices: ShadowPrices, own: str | None
    ) -> Iterator[NodeAccount]:
        """Yield nodes that would have room without the reservations of namespaces other than `own`."""
        looked_at = (each for each in self._looked_at() if _may_have_room(each, request, own))
        without = (each.without_reservations(own) for each in filter(candidates.holds, looked_at))
        return islice((each for each in without if score(each, request, prices) is not None), MAX_WITH_ROOM)

    def _looked_at(self) -> Iterator[NodeAccount]:
        """The nodes with reservations."""
        left = MAX_LOOKED_AT
        for account in self._node_index.reserved.values():
            left -= len(account.reserved)
            if left < 0:
                return
            yield account

    def _ranked(
        self, found: Counter[_Place], request: PlacementRequest, own: str | None
    ) -> Iterator[tuple[int, _Place]]:
        """Yield places with the ratio of their queue to their room; not if pending pods of `own` fill it."""
        each = request.share.fraction.slices_on_each
        of_own = self.pending.of_namespace(own) if own is not None else {}
        kinds = {gpu_mib for _, _, gpu_mib in found}
        waiting = {mib: self.pending.slices(self._values.of_share(request, mib)) for mib in kinds}
        for place, pods in found.items():
            _, indices, gpu_mib = place
            units: tuple[Unit, ...] = indices or (request.share.resource_unit,)
            if all(of_own.get(unit, 0) + each <= pods * each for unit in units):
                load = max([waiting[gpu_mib].get(unit, 0) for unit in units]) + each
                yield load * _PRECISION // (pods * each), place


def _may_have_room(account: NodeAccount, request: PlacementRequest, own: str | None) -> bool:
    """Whether a GPU may fit once the reservations of namespaces other than `own` are removed.

    If pods fill nearly everything, few nodes pass this check. To copy an account costs a thousand times more
    than a usual decision.
    """
    gained = sum([claim.slices for claim in account.reserved.values() if claim.namespace != own])
    if not gained:
        return False
    share, fraction = request.share, request.share.fraction
    free = counting(share.mode_type).free(account, share.resource_unit)
    least = max(fraction.split) if fraction.is_apart else fraction.slices_on_each
    return max(free, default=0) + gained >= least


def _choosable(account: NodeAccount, request: PlacementRequest) -> Mapping[int, int]:
    """Return the free slices of a node's GPUs that the pod may use."""
    left, fact = request.share.mode_type.choosable(account.left), account.fact
    sets = card_sets(fact, demand(request)) if fact is not None and fact.cards else None
    return (
        left
        if sets is None
        else {index: left[index] for index in left if any(index in each for each in sets)}
    )


def _places(
    account: NodeAccount, request: PlacementRequest, prices: ShadowPrices
) -> Iterator[tuple[_Place, int]]:
    """Yield the GPUs of a node with room that the pod could get, and how many such pods they can hold."""
    mode, fraction = request.share.mode_type, request.share.fraction
    each = fraction.slices_on_each
    gpu_mib = (account.fact.gpu_mib if account.fact is not None else None) or 0
    share = fraction.share_mib(gpu_mib) if request.share.is_bound_by_memory else 0
    left = _choosable(account, request)
    if not left:
        on_each = counting(mode).free(account, request.share.resource_unit)
        yield (share, (), gpu_mib), sum([free // each for free in on_each])
    elif fraction.gpus > 1:
        yield (share, best_gpus(account, mode, request, prices), gpu_mib), 1
    else:
        for index, slices in left.items():
            if slices >= each:
                yield (share, (index,), gpu_mib), slices // each
