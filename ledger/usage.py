"""What namespaces and ClearML queues have taken, running, pending and promised together: for quotas."""

from __future__ import annotations

from typing import Literal

from ledger.accounts import Claim
from ledger.ask import OverQuota, Quota

_Scope = Literal["namespace", "queue"]
_NOTHING = (0, 0)


class Usage:
    """Slices and pods by namespace and by queue."""

    def __init__(self) -> None:
        self._taken: dict[tuple[_Scope, str], tuple[int, int]] = {}
        """Slices, and pods that have any."""

    def add(self, claim: Claim) -> None:
        """Count a claim; the inverse of `remove`."""
        slices = claim.slices
        for scope in _scopes(claim) if slices else ():
            taken, pods = self._taken.get(scope, _NOTHING)
            self._taken[scope] = taken + slices, pods + 1

    def remove(self, claim: Claim) -> None:
        """Forget a claim; the inverse of `add`."""
        slices = claim.slices
        for scope in _scopes(claim) if slices else ():
            taken, pods = self._taken[scope]
            if pods == 1:
                del self._taken[scope]
            else:
                self._taken[scope] = taken - slices, pods - 1

    def slices(self, scope: _Scope, name: str) -> int:
        """Slices taken by a namespace or queue."""
        return self._taken.get((scope, name), _NOTHING)[0]

    def pods(self, scope: _Scope, name: str) -> int:
        """Pods with slices in a namespace or queue, reservations among them."""
        return self._taken.get((scope, name), _NOTHING)[1]

    def passed_by(self, slices: int, quotas: tuple[Quota, ...]) -> OverQuota | None:
        """The first quota that one more pod of so many slices would pass."""
        for quota in quotas:
            used = self.slices(quota.scope, quota.name)
            if quota.slices is not None and used + slices > quota.slices:
                return OverQuota(quota, used, slices, quota.slices, "slices")
            pods = self.pods(quota.scope, quota.name)
            if quota.max_pods is not None and pods >= quota.max_pods:
                return OverQuota(quota, pods, 1, quota.max_pods, "pods")
        return None


def _scopes(claim: Claim) -> list[tuple[_Scope, str]]:
    scopes: list[tuple[_Scope, str]] = [("namespace", claim.namespace)]
    for queue in claim.queues:
        scopes.append(("queue", queue))  # noqa: PERF401 - most claims have none, and then a loop is fastest
    return scopes
