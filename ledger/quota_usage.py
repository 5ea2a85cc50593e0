"""What namespaces and ClearML queues use, for quotas: running, pending and reserved together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ledger.accounts import Claim
from ledger.gpu_memory import GpuMemory
from ledger.placement_request import OverQuota, Quota

_Key = TypeVar("_Key", bound=Hashable)
_Cell = tuple[tuple[str, ...], str]
"""Keys of queues (claims must have all of them; empty for all claims) and a namespace (empty for all)."""


class Used(NamedTuple):
    """Pods and slices of some pods together, as quotas count them."""

    slices: int
    pods: int
    """Pods that have slices."""
    memory: GpuMemory


_Sums = list[int]
"""Slices, pods, MiB, and sixteenths of cards of unknown memory. Changed in place: each pod changes
up to eight of them."""
_NOTHING = (0, 0, 0, 0)


class QuotaUsage:
    """Slices, pods that have any, and GPU memory, by namespace and by queue.

    Each claim is counted once, with those of the same namespace and queues. The cells that quotas read are
    summed up from these when a quota is first looked at, and are kept from then on.
    """

    def __init__(self) -> None:
        self._alike: dict[tuple[str, tuple[str, ...]], _Sums] = {}
        """By namespace and queue keys."""
        self._cells: dict[_Cell, _Sums] | None = None
        """None as long as nobody has asked about a quota."""
        self.changes = 0
        """Number of changes so far."""

    @property
    def namespaces(self) -> Mapping[str, int]:
        """Slices of each namespace that has any."""
        found: dict[str, int] = {}
        for (namespace, _), sums in self._alike.items():
            found[namespace] = found.get(namespace, 0) + sums[0]
        return found

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
        key = claim.namespace, claim.queues
        changes = sign * slices, sign, sign * memory.mib, sign * memory.unknown_sixteenths
        _change(self._alike, key, changes)
        if self._cells is not None:
            for cell in _cells(*key):
                _change(self._cells, cell, changes)

    def _of_cell(self, cell: _Cell) -> Sequence[int]:
        if self._cells is None:
            self._cells = {}
            for (namespace, queues), sums in self._alike.items():
                for each in _cells(namespace, queues):
                    _change(self._cells, each, sums)
        return self._cells.get(cell, _NOTHING)

    def of(self, quota: Quota) -> Used:
        """Return the usage of a quota, including reservations."""
        if quota.scope == "namespace":
            slices, pods, mib, unknown_sixteenths = self._of_cell(((), quota.name))
            return Used(slices, pods, GpuMemory(mib, unknown_sixteenths))
        slices = pods = mib = unknown_sixteenths = 0
        for cell, sign in _counted(quota):
            taken = self._of_cell(cell)
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


def _change(table: dict[_Key, _Sums], key: _Key, changes: Sequence[int]) -> None:
    """Add to the sums of a key, and remove them when no pod is left."""
    sums = table.get(key)
    if sums is None:
        table[key] = [*changes]
        return
    sums[0] += changes[0]
    sums[1] += changes[1]
    sums[2] += changes[2]
    sums[3] += changes[3]
    if not sums[1]:
        del table[key]


def _cells(namespace: str, queues: tuple[str, ...]) -> list[_Cell]:
    """Cells that count a claim: of its queue by name, by id, and by both; of its namespace and of all."""
    cells: list[_Cell] = [((), namespace)]
    for keys in _subsets(queues):
        cells += [(keys, namespace), (keys, "")]
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
