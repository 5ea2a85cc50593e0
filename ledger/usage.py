"""What namespaces and ClearML queues have taken, running, pending and promised together: for quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ledger.accounts import Claim
from ledger.placement_request import OverQuota, Quota

_Cell = tuple[tuple[str, ...], str]
"""Keys of queues that claims have all of, none for all claims; and a namespace, empty for all of them."""
_NOTHING = (0, 0)


class QuotaUsage:
    """Slices, and pods that have any, by namespace and by queue."""

    def __init__(self) -> None:
        self._taken: dict[_Cell, tuple[int, int]] = {}
        self._namespaces: dict[str, int] = {}
        """Slices by namespace, for those who ask for all of them."""

    @property
    def namespaces(self) -> Mapping[str, int]:
        """Slices by namespace, where there are any."""
        return self._namespaces

    def add(self, claim: Claim, times: int = 1) -> None:
        """Count a claim; the inverse of `remove`."""
        slices = claim.slices * times
        if slices:
            self._count(claim.namespace, slices)
        for cell in _cells(claim) if slices else ():
            taken, pods = self._taken.get(cell, _NOTHING)
            self._taken[cell] = taken + slices, pods + times

    def remove(self, claim: Claim, times: int = 1) -> None:
        """Forget a claim; the inverse of `add`."""
        slices = claim.slices * times
        if slices:
            self._count(claim.namespace, -slices)
        for cell in _cells(claim) if slices else ():
            taken, pods = self._taken[cell]
            if pods == times:
                del self._taken[cell]
            else:
                self._taken[cell] = taken - slices, pods - times

    def _count(self, namespace: str, slices: int) -> None:
        left = self._namespaces.get(namespace, 0) + slices
        if left:
            self._namespaces[namespace] = left
        else:
            del self._namespaces[namespace]

    def of(self, quota: Quota) -> tuple[int, int]:
        """Slices, and pods with any, that a quota counts; reservations are among them."""
        if quota.scope == "namespace":
            return self._taken.get(((), quota.name), _NOTHING)
        slices = pods = 0
        for cell, sign in _counted(quota):
            taken = self._taken.get(cell, _NOTHING)
            slices += sign * taken[0]
            pods += sign * taken[1]
        return slices, pods

    def passed_by(self, slices: int, quotas: tuple[Quota, ...]) -> OverQuota | None:
        """The first quota that one more pod of so many slices would pass."""
        for quota in quotas:
            used, pods = self.of(quota)
            if quota.slices is not None and used + slices > quota.slices:
                return OverQuota(quota, used, slices, quota.slices, "slices")
            if quota.max_pods is not None and pods >= quota.max_pods:
                return OverQuota(quota, pods, 1, quota.max_pods, "pods")
        return None


def _cells(claim: Claim) -> list[_Cell]:
    """Where a claim is counted: a queue by its name, by its id, and by both, in its namespace and in all."""
    cells: list[_Cell] = [((), claim.namespace)]
    for keys in _subsets(claim.queues):
        cells += [(keys, claim.namespace), (keys, "")]
    return cells


def _counted(quota: Quota) -> Iterator[tuple[_Cell, int]]:
    """The cells of a queue's quota with their signs: claims with both keys are in two, and counted once."""
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
