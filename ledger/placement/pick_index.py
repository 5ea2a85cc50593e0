"""Chooses the index that a pod waits for: the one with the shortest queue relative to its capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ledger.placement.counting import counting
from ledger.placement.memory_values import MemoryValues
from ledger.placement.pending import PendingPods
from ledger.placement.shape_capacity import ShapeCapacity
from ledger.placement_request import Assumption, PlacementRequest
from modes.units import Gpu, Unit

_PRECISION = 10**6


@dataclass(frozen=True, slots=True)
class PickedIndex:
    """The index or indices to wait for, on one kind of GPU."""

    indices: tuple[int, ...]
    """Index of each GPU; of each container, if containers use different GPUs."""
    gpu_mib: int


@dataclass(frozen=True, slots=True)
class EligibleCapacity:
    """Capacity of eligible nodes on whose GPUs the pod's share gives the same MiB."""

    capacity: dict[Unit, int]
    shapes: dict[tuple[int, ...], int]
    """MiB of one GPU by the GPU indices of a node."""


Kinds = dict[int, EligibleCapacity]
"""Capacities to wait for, by MiB of the share."""


def kinds(capacities: Iterable[ShapeCapacity], request: PlacementRequest) -> Kinds:
    """Sum up the capacities of nodes that could ever hold the pod."""
    found: Kinds = {}
    share, is_bound = request.share, request.share.is_bound_by_memory
    for capacity in capacities:
        mib = share.fraction.share_mib(capacity.gpu_mib) if is_bound else 0
        kind = found.setdefault(mib, EligibleCapacity({}, {}))
        by_unit = counting(share.mode_type).capacity(capacity, share.resource_unit)
        for unit, slices in by_unit.items():
            kind.capacity[unit] = kind.capacity.get(unit, 0) + slices
        shape = [unit for unit in by_unit if isinstance(unit, Gpu)]
        kind.shapes.setdefault(tuple(shape), capacity.gpu_mib)
    return found


def pick_index(
    found: Kinds, request: PlacementRequest, pending: PendingPods, values: MemoryValues
) -> PickedIndex:
    """Choose what to wait for; the smallest share wins a tie."""
    fraction = request.share.fraction
    ranked: list[tuple[int, int, tuple[int, ...], int]] = []
    slices, gpus = fraction.slices_on_each, fraction.gpus
    for mib, kind in found.items():
        accepted = values.of_share(request, next(iter(kind.shapes.values())))
        load = _loads(kind, slices, pending.slices(accepted))
        for indices, gpu_mib in kind.shapes.items():
            taken = sorted([(load[index], index) for index in indices])[:gpus]
            total = sum([value for value, _ in taken]) if taken else load[request.share.resource_unit]
            ranked.append((total, mib, tuple(sorted([index for _, index in taken])), gpu_mib))
    *_, chosen, gpu_mib = min(ranked)
    if fraction.is_apart:
        chosen = tuple([chosen[each] for each in fraction.bins])
    return PickedIndex(chosen, gpu_mib)


def _loads(kind: EligibleCapacity, slices: int, waiting: Mapping[Unit, int]) -> dict[Unit, int]:
    """Length of the queue by unit, with these slices added, relative to the capacity."""
    loads = {}
    for unit, capacity in kind.capacity.items():
        load = (waiting.get(unit, 0) + slices) * _PRECISION
        loads[unit] = load // capacity if capacity else load * _PRECISION
    return loads


def pick_assumed_index(assume: Assumption, request: PlacementRequest, pending: PendingPods) -> PickedIndex:
    """Choose an index of nodes that do not exist yet; call it only if they have enough GPUs."""
    waiting = pending.slices(())
    every = {index: waiting.get(index, 0) for index in range(assume.gpus_per_node)}
    gpus = request.share.mode_type.choosable(every)
    loads = sorted((slices, index) for index, slices in gpus.items())[: request.share.fraction.gpus]
    return PickedIndex(tuple(sorted(index for _, index in loads)), assume.gpu_mib)
