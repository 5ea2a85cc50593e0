"""What reservations take of one node, apart from what pods take: it may be that their pods never come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Takes(Protocol):
    """What claims take (ledger/accounts.py says what each is)."""

    @property
    def gpus(self) -> Iterable[tuple[int, int]]: ...  # noqa: D102 - the words are those of Claim
    @property
    def pooled(self) -> int: ...  # noqa: D102
    @property
    def cpu_milli(self) -> int: ...  # noqa: D102
    @property
    def memory_bytes(self) -> int: ...  # noqa: D102


class ReservedClaim(Takes, Protocol):
    """A reservation."""

    @property
    def namespace(self) -> str: ...  # noqa: D102


class Amounts:
    """A sum of claims."""

    __slots__ = ("claims", "cpu_milli", "memory_bytes", "pooled", "slices")

    def __init__(self) -> None:
        self.claims = 0
        self.slices: dict[int, int] = {}
        """Slices by index, MIG instances by the number of their profile."""
        self.pooled = 0
        self.cpu_milli = 0
        self.memory_bytes = 0

    @property
    def gpus(self) -> Iterable[tuple[int, int]]:
        """Slices by index, as a claim says them."""
        return self.slices.items()

    def add(self, claim: Takes, sign: int) -> None:
        """Add a claim, or with a sign of -1 take it out again."""
        self.claims += sign
        for index, slices in claim.gpus:
            self.slices[index] = self.slices.get(index, 0) + sign * slices
        self.pooled += sign * claim.pooled
        self.cpu_milli += sign * claim.cpu_milli
        self.memory_bytes += sign * claim.memory_bytes


_NOTHING = Amounts()


class ReservedRoom:
    """Sums of the reservations on one node: of all, and of each namespace."""

    __slots__ = ("_by_namespace", "total")

    def __init__(self) -> None:
        self.total = Amounts()
        self._by_namespace: dict[str, Amounts] = {}

    def add(self, claim: ReservedClaim) -> None:
        """Add a reservation; the inverse of `remove`."""
        self.total.add(claim, 1)
        self._by_namespace.setdefault(claim.namespace, Amounts()).add(claim, 1)

    def remove(self, claim: ReservedClaim) -> None:
        """Take a reservation out; the inverse of `add`."""
        self.total.add(claim, -1)
        own = self._by_namespace[claim.namespace]
        own.add(claim, -1)
        if not own.claims:
            del self._by_namespace[claim.namespace]

    def of(self, namespace: str | None) -> Amounts:
        """What the reservations of one namespace take; nothing for None."""
        return self._by_namespace.get(namespace, _NOTHING) if namespace is not None else _NOTHING
