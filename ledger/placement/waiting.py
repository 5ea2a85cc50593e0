"""What pods without a node wait for, and the index that another one should wait for: the shortest queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from ledger.accounts import Claim, ClaimKey, add_amounts
from ledger.placement.candidates import Candidates
from ledger.placement.cards import card_sets
from ledger.placement.feasibility import as_offered, takes_now
from ledger.placement.gpu_kinds import KnownKinds
from ledger.placement_request import Assumption, PlacementRequest
from modes.facts import NodeFact
from modes.units import Unit

_PRECISION = 10**6


class PendingPods:
    """What pods take or claim that have neither a node nor an expected one."""

    def __init__(self) -> None:
        self._slices: dict[tuple[str, ...] | None, dict[Unit, int]] = {}
        """By the values of GPU memory that pods require, and by unit."""
        self.claiming = 0
        """Pods whose claims the scheduler has not tried yet, and reservations of such."""
        self.claims: dict[ClaimKey, Claim] = {}
        """What is listed as waiting, in the order of arrival. Pods that claim cards take no slices."""

    def add(self, key: ClaimKey, claim: Claim) -> None:
        """Add a pending claim; the inverse of `remove`. A reservation that takes no slices is not listed."""
        self._count(claim, 1)
        if claim.takes or (claim.claimed and not claim.is_reserved):
            self.claims[key] = claim

    def remove(self, key: ClaimKey, claim: Claim) -> None:
        """Remove a claim that is no longer pending; the inverse of `add`."""
        self._count(claim, -1)
        self.claims.pop(key, None)

    def total(self) -> int:
        """All pending slices."""
        return sum([sum(by_unit.values()) for by_unit in self._slices.values()])

    def slices(self, memory_values: Collection[str]) -> Mapping[Unit, int]:
        """Slices by unit that wait for GPUs with any of these memory values."""
        found = Counter[Unit]()
        for required, by_unit in self._slices.items():
            if required is None or not {*required}.isdisjoint(memory_values):
                found.update(by_unit)
        return found

    def _count(self, claim: Claim, sign: int) -> None:
        by_unit = self._slices.setdefault(claim.memory_values, {})
        add_amounts(by_unit, claim, sign)
        self.claiming += sign * bool(claim.claimed and not claim.is_refused)
        if not by_unit:
            del self._slices[claim.memory_values]


WaitingPlace = tuple[tuple[int, ...], int]
"""The index of each GPU to wait for (of each container, if these use different GPUs), and MiB of one GPU."""


_Capacity = tuple[Counter[Unit], dict[tuple[int, ...], int]]
"""Of eligible nodes on whose GPUs the pod's share gives the same MiB: slices by unit; MiB of one GPU by the
indices of a node's GPUs."""


def waiting_places(
    candidates: Candidates, request: PlacementRequest, pending: PendingPods, known: KnownKinds
) -> Iterator[WaitingPlace]:
    """Yield what a pod can wait for, by kind of GPU: the shortest queue first, then the smallest share."""
    fraction, unit = request.share.fraction, request.share.resource_unit
    ranked: list[tuple[int, int, tuple[int, ...], int]] = []
    for mib, (capacity, shapes) in _capacities(candidates, request).items():
        waiting = pending.slices(known.of_share(request, next(iter(shapes.values()))))
        loads = dict[Unit, int]()
        for each, total in capacity.items():
            # The length of its queue with these slices added, relative to the capacity.
            load = (waiting.get(each, 0) + fraction.slices_on_each) * _PRECISION
            loads[each] = load // total if total else load * _PRECISION
        best = []
        for indices, gpu_mib in shapes.items():
            taken = sorted([(loads[index], index) for index in indices])[: fraction.gpus]
            total = sum([load for load, _ in taken]) if taken else loads[unit]
            best.append((total, mib, tuple(sorted([index for _, index in taken])), gpu_mib))
        ranked.append(min(best))
    for *_, indices, gpu_mib in sorted(ranked):
        yield fraction.of_containers(indices), gpu_mib


def assumed_indices(assume: Assumption, request: PlacementRequest, pending: PendingPods) -> tuple[int, ...]:
    """Choose GPUs of nodes that do not exist yet; call it only if they have enough."""
    waiting = pending.slices(())
    every = {index: waiting.get(index, 0) for index in range(assume.gpus_per_node)}
    gpus = request.share.mode_type.choosable(every)
    return tuple(sorted(sorted(gpus, key=lambda index: (gpus[index], index))[: request.share.fraction.gpus]))


def capacity_of(candidates: Candidates, request: PlacementRequest) -> int:
    """Return the amount of the pod's unit on the nodes that could hold it."""
    unit = request.share.resource_unit
    return sum([capacity[unit] for capacity, _ in _capacities(candidates, request).values()])


def _capacities(candidates: Candidates, request: PlacementRequest) -> Mapping[int, _Capacity]:
    """Return the capacities of the nodes that take pods now, or of all if none does, by MiB of the share."""
    found: dict[int, _Capacity] = {}
    share = request.share
    samples = [(as_offered(node, request), count) for node, count in candidates.samples()]
    now = [(node, count) for node, count in samples if takes_now(node, request)]
    for node, count in now or samples:
        for indices, gpu_mib in _parts(node, candidates, request):
            mib = share.fraction.share_mib(gpu_mib) if share.is_bound_by_memory else 0
            capacity, shapes = found.setdefault(mib, (Counter(), {}))
            offered = node.offered()
            for unit in indices or (share.resource_unit,):
                capacity[unit] += 0 if unit in node.cordoned else count * offered.get(unit, 0)
            shapes.setdefault(indices, gpu_mib)
    return found


def _parts(
    node: NodeFact, candidates: Candidates, request: PlacementRequest
) -> list[tuple[tuple[int, ...], int]]:
    """Return the GPUs that a pod may use together on a node, and the MiB of one: all of them, or each set."""
    every = tuple(request.share.mode_type.choosable(dict(node.gpus)))
    sets = card_sets(node, candidates.demand)
    if sets is None:
        return [(every, node.gpu_mib or 0)]
    # A pod that requires a model requires what the labels state, which its cards nearly equal.
    by_label = request.share.is_bound_by_memory or request.keeps_model
    return [
        (tuple(sorted(each)), (node.gpu_mib if by_label else node.card_mib(tuple(each))) or 0)
        for each in sets
    ]
