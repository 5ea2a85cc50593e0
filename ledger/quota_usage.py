"""What namespaces and ClearML queues use, for quotas: running, pending and reserved together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ledger.accounts import Claim
from ledger.gpu_memory import NO_MEMORY, GpuMemory
from ledger.placement_request import OverQuota, Quota

_Cell = tuple[tuple[str, ...], str]
"""Keys of queues (claims must have all of them; empty for all claims) and a namespace (empty for all)."""


class Used(NamedTuple):
    """Pods and slices of some pods together, as quotas count them."""

    slices: int
    pods: int
    """Pods that have slices."""
    memory: GpuMemory


NOTHING_USED = Used(0, 0, NO_MEMORY)


class QuotaUsage:
    """Slices, pods that have any, and GPU memory, by namespace and by queue."""

    def __init__(self) -> None:
        self._cells: dict[_Cell, list[int]] = {}
        """Slices, pods, MiB, and sixteenths of cards of unknown memory. Changed in place: each pod changes up
        to seven of them."""
        self.changes = 0
        """Number of changes so far."""

    @property
    def namespaces(self) -> Mapping[str, int]:
        """Slices of each namespace that has any."""
        return {namespace: sums[0] for (keys, namespace), sums in self._cells.items() if not keys}

    def add(self, claim: Claim, memory: GpuMemory) -> None:
        """Count a claim and its GPU memory, unless it waits for a quota; the inverse of `remove`."""
        self._count(claim, memory, 1)

    def remove(self, claim: Claim, memory: GpuMemory) -> None:
        """Stop counting a claim; the inverse of `add`."""
        self._count(claim, memory, -1)

    def _count(self, claim: Claim, memory: GpuMemory, sign: int) -> None:
        slices = claim.counted_slices
        if not slices or claim.waits_for_quota:
            return
        self.changes += 1
        for cell in _cells(claim.namespace, claim.queues):
            sums = self._cells.setdefault(cell, [0, 0, 0, 0])
            for at, amount in enumerate((slices, 1, memory.mib, memory.unknown_sixteenths)):
                sums[at] += sign * amount
            if not sums[1]:
                del self._cells[cell]

    def of(self, quota: Quota) -> Used:
        """Return the usage of a quota, including reservations."""
        sums = [0, 0, 0, 0]
        for cell, sign in _counted(quota):
            for at, amount in enumerate(self._cells.get(cell, ())):
                sums[at] += sign * amount
        return Used(sums[0], sums[1], GpuMemory(sums[2], sums[3]))


def exceeded(quota: Quota, used: Used, need: Used, largest_mib: int) -> OverQuota | None:
    """Return by how much `need` would exceed a quota, if so; an unknown card has `largest_mib`."""
    if quota.slices is not None and used.slices + need.slices > quota.slices:
        return OverQuota(quota, used.slices, need.slices, quota.slices, "slices")
    if quota.max_pods is not None and used.pods + need.pods > quota.max_pods:
        return OverQuota(quota, used.pods, need.pods, quota.max_pods, "pods")
    if quota.memory_mib is None:
        return None
    former = used.memory.at_most(largest_mib)
    asked = used.memory.plus(need.memory).at_most(largest_mib) - former
    if former + asked <= quota.memory_mib:
        return None
    return OverQuota(quota, former, asked, quota.memory_mib, "MiB")


def _cells(namespace: str, queues: tuple[str, ...]) -> list[_Cell]:
    """Cells that count a claim: of its queue by name, by id, and by both; of its namespace and of all."""
    cells: list[_Cell] = [((), namespace)]
    for keys in _subsets(queues):
        cells += [(keys, namespace), (keys, "")]
    return cells


def _counted(quota: Quota) -> Iterator[tuple[_Cell, int]]:
    """The cells of a quota with signs, so that a claim in two cells of a queue counts once."""
    if quota.scope == "namespace":
        yield ((), quota.name), 1
        return
    if quota.namespaces is None:
        spaces = [("", 1), *((namespace, -1) for namespace in quota.other_namespaces)]
    else:
        spaces = [(namespace, 1) for namespace in quota.namespaces]
    for keys in _subsets(quota.keys or (quota.name,)):
        for namespace, sign in spaces:
            yield (keys, namespace), sign if len(keys) == 1 else -sign


def _subsets(keys: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Each of at most two keys, and both together."""
    if len(keys) <= 1:
        return (keys,) if keys else ()
    return (keys[:1], keys[1:], keys)
