"""What namespaces and ClearML queues use, for quotas: running, pending and reserved together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ledger.accounts import Claim
from ledger.gpu_memory import GpuMemory
from ledger.placement_request import OverQuota, Quota

_Cell = tuple[tuple[str, ...], str]
"""Keys of queues (claims must have all of them; empty for all claims) and a namespace (empty for all)."""


class Used(NamedTuple):
    """Pods and slices of some pods together, as quotas count them."""

    slices: int
    pods: int
    """Pods that have slices."""
    memory: GpuMemory


_Taken = tuple[int, int, int, int]
"""Slices, pods, MiB, and sixteenths of cards of unknown memory. A plain tuple, because each pod changes up to
seven of them."""
_NOTHING = (0, 0, 0, 0)


class QuotaUsage:
    """Slices, pods that have any, and GPU memory, by namespace and by queue."""

    def __init__(self) -> None:
        self._taken: dict[_Cell, _Taken] = {}
        self._namespaces: dict[str, int] = {}
        """Slices by namespace, for a fast answer on all namespaces."""
        self.changes = 0
        """Number of changes so far."""

    @property
    def namespaces(self) -> Mapping[str, int]:
        """Slices of each namespace that has any."""
        return self._namespaces

    def add(self, claim: Claim, memory: GpuMemory) -> None:
        """Count a claim and its GPU memory, unless it waits for a quota; the inverse of `remove`."""
        slices = claim.slices
        if not slices or claim.waits_for_quota:
            return
        self.changes += 1
        self._count(claim.namespace, slices)
        for cell in _cells(claim):
            taken = self._taken.get(cell, _NOTHING)
            self._taken[cell] = (
                taken[0] + slices,
                taken[1] + 1,
                taken[2] + memory.mib,
                taken[3] + memory.unknown_sixteenths,
            )

    def remove(self, claim: Claim, memory: GpuMemory) -> None:
        """Stop counting a claim; the inverse of `add`."""
        slices = claim.slices
        if not slices or claim.waits_for_quota:
            return
        self.changes += 1
        self._count(claim.namespace, -slices)
        for cell in _cells(claim):
            taken = self._taken[cell]
            if taken[1] == 1:
                del self._taken[cell]
            else:
                self._taken[cell] = (
                    taken[0] - slices,
                    taken[1] - 1,
                    taken[2] - memory.mib,
                    taken[3] - memory.unknown_sixteenths,
                )

    def _count(self, namespace: str, slices: int) -> None:
        left = self._namespaces.get(namespace, 0) + slices
        if left:
            self._namespaces[namespace] = left
        else:
            del self._namespaces[namespace]

    def of(self, quota: Quota) -> Used:
        """Return the usage of a quota, including reservations."""
        if quota.scope == "namespace":
            slices, pods, mib, unknown_sixteenths = self._taken.get(((), quota.name), _NOTHING)
            return Used(slices, pods, GpuMemory(mib, unknown_sixteenths))
        slices = pods = mib = unknown_sixteenths = 0
        for cell, sign in _counted(quota):
            taken = self._taken.get(cell, _NOTHING)
            slices += sign * taken[0]
            pods += sign * taken[1]
            mib += sign * taken[2]
            unknown_sixteenths += sign * taken[3]
        return Used(slices, pods, GpuMemory(mib, unknown_sixteenths))

    def passed_by(self, slices: int, quotas: tuple[Quota, ...]) -> OverQuota | None:
        """The first quota that one more pod with these slices would exceed, in slices or pods."""
        for quota in quotas:
            over = _exceeded_count(quota, self.of(quota), slices, 1)
            if over is not None:
                return over
        return None

    def memory_passed_by(
        self, memory: GpuMemory, quotas: tuple[Quota, ...], largest_mib: int
    ) -> OverQuota | None:
        """The first quota in MiB that one more pod would exceed; cards of unknown size are the largest."""
        for quota in quotas:
            if quota.memory_mib is not None:
                over = _exceeded_memory(quota, self.of(quota).memory, memory, largest_mib)
                if over is not None:
                    return over
        return None


def exceeded(quota: Quota, used: Used, need: Used, largest_mib: int) -> OverQuota | None:
    """Return by how much a quota would be exceeded; None if it has room.

    Args:
        quota: the limits.
        used: what counts already.
        need: what comes in addition.
        largest_mib: MiB of a card of unknown size.
    """
    over = _exceeded_count(quota, used, need.slices, need.pods)
    return over or _exceeded_memory(quota, used.memory, need.memory, largest_mib)


def _exceeded_count(quota: Quota, used: Used, slices: int, pods: int) -> OverQuota | None:
    if quota.slices is not None and used.slices + slices > quota.slices:
        return OverQuota(quota, used.slices, slices, quota.slices, "slices")
    if quota.max_pods is not None and used.pods + pods > quota.max_pods:
        return OverQuota(quota, used.pods, pods, quota.max_pods, "pods")
    return None


def _exceeded_memory(quota: Quota, used: GpuMemory, need: GpuMemory, largest_mib: int) -> OverQuota | None:
    if quota.memory_mib is None:
        return None
    former = used.at_most(largest_mib)
    asked = used.plus(need).at_most(largest_mib) - former
    if former + asked <= quota.memory_mib:
        return None
    return OverQuota(quota, former, asked, quota.memory_mib, "MiB")


def _cells(claim: Claim) -> list[_Cell]:
    """Cells that count a claim: of its queue by name, by id, and by both; of its namespace and of all."""
    cells: list[_Cell] = [((), claim.namespace)]
    if claim.queues:
        for keys in _subsets(claim.queues):
            cells += [(keys, claim.namespace), (keys, "")]
    return cells


def _counted(quota: Quota) -> Iterator[tuple[_Cell, int]]:
    """The cells of a queue's quota with signs, so that a claim in two cells counts once."""
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
