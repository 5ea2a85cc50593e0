"""What is allocated on one node: by bound pods, and by pods and reservations that are not bound to it yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from modes.facts import NodeFact, PodFact
from modes.fraction import Fraction
from modes.units import POOL, Gpu, Unit

_Key = TypeVar("_Key")
ClaimKey = tuple[str, ...]
"""Namespace and name of a pod. A reservation's key has a third part, so it never equals a pod's key."""


Claim = PodFact
"""It takes GPU slices, CPU, memory and other resources; a reservation until its pod appears."""


def add_amounts(amounts: dict[Unit, int], claim: Claim, sign: int = 1) -> None:
    """Add what a claim takes; a sign of -1 subtracts it."""
    for unit, amount in claim.takes:
        add_to(amounts, unit, sign * amount)


def add_to(amounts: dict[_Key, int], key: _Key, amount: int) -> None:
    """Add to one amount. A zero is removed, so that equal sums are equal."""
    total = amounts.get(key, 0) + amount
    if total:
        amounts[key] = total
    else:
        amounts.pop(key, None)


class NodeAccount:
    """What is allocated on one node. An unknown or deleted node has an account as long as it has pods."""

    __slots__ = (
        "_fact",
        "claims",
        "cpu_free",
        "extended",
        "left",
        "memory_free",
        "name",
        "offered",
        "taken",
        "unbound",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self._fact: NodeFact | None = None
        self.claims: dict[ClaimKey, Claim] = {}
        self.offered: dict[Unit, int] = {}
        """What the node offers; nothing while it is unknown."""
        self.taken: dict[Unit, int] = {}
        """What bound and unbound claims take."""
        self.unbound: dict[Unit, int] = {}
        """What only unbound claims take."""
        self.left: dict[int, int] = {}
        """Free slices by index, without cordoned GPUs; negative after a node lost capacity."""
        self.cpu_free = 0
        """Milli-CPU that claims leave free; negative while the node is unknown."""
        self.memory_free = 0
        """Bytes of memory that claims leave free; negative while the node is unknown."""
        self.extended: dict[str, int] = {}
        """What claims take of other extended resources, by name."""

    @property
    def fact(self) -> NodeFact | None:
        """The node as last observed; None while it is unknown."""
        return self._fact

    @fact.setter
    def fact(self, fact: NodeFact | None) -> None:
        for known, sign in ((self._fact, -1), (fact, 1)):
            if known is not None:
                self.cpu_free += sign * known.cpu_milli
                self.memory_free += sign * known.memory_bytes
        self._fact = fact
        self.offered = fact.offered() if fact is not None else {}
        gpus, cordoned = (fact.gpus, fact.cordoned) if fact is not None else ((), frozenset())
        taken = self.taken
        self.left = {index: slices - taken.get(index, 0) for index, slices in gpus if index not in cordoned}

    def take(self, key: ClaimKey, claim: Claim) -> None:
        """Allocate a claim's amounts; the inverse of `give_back`."""
        self.claims[key] = claim
        self._book(claim, 1)
        if claim.node is None:
            add_amounts(self.unbound, claim)

    def give_back(self, key: ClaimKey) -> None:
        """Free a claim's amounts; the inverse of `take`."""
        claim = self.claims.pop(key)
        self._book(claim, -1)
        if claim.node is None:
            add_amounts(self.unbound, claim, -1)

    def has_beside(self, memory_bytes: int, extended: Iterable[tuple[str, int]]) -> bool:
        """Whether so much memory, and so much of other extended resources, is free."""
        offered, taken = self._fact.extended if self._fact is not None else {}, self.extended
        return self.memory_free >= memory_bytes and all(
            offered.get(name, 0) - taken.get(name, 0) >= amount for name, amount in extended
        )

    def held(self, unit: Unit) -> int:
        """What bound pods hold of one unit."""
        return self.taken.get(unit, 0) - self.unbound.get(unit, 0)

    def free_of(self, unit: Unit) -> int:
        """What is free of one unit, never negative; for GPUs see `left`, which leaves out cordoned ones."""
        return max(0, self.offered.get(unit, 0) - self.taken.get(unit, 0))

    def pool_state(self) -> tuple[int, ...]:
        """Free slices of each card of the pool, sorted; one sum if the cards are unknown.

        Slices that pods took after the agent's report count as the agent will place them: on the card with
        the least sufficient room, else on the freest ones. Slices freed since are of an unknown card.
        """
        cards = self._fact.pool_cards if self._fact is not None else ()
        since = self.taken.get(POOL, 0) - sum([held for _, held in cards])
        if self._fact is None or not cards or since < 0:
            return (self.free_of(POOL),)
        left = [max(0, self._fact.pooled // len(cards) - held) for _, held in cards]
        new: list[int] = []
        for claim in reversed(self.claims.values()):
            taken = min(since, sum([amount for unit, amount in claim.takes if unit is POOL]))
            new.append(taken)
            since -= taken
        for slices in reversed(new):
            _give(left, slices)
        return tuple(sorted(left))

    def free_units(self) -> dict[Unit, int]:
        """What is free of each unit that the node offers, never negative; without cordoned GPUs."""
        cordoned = self._fact.cordoned if self._fact is not None else ()
        return {unit: self.free_of(unit) for unit in self.offered if unit not in cordoned}

    def _book(self, claim: Claim, sign: int) -> None:
        add_amounts(self.taken, claim, sign)
        left = self.left
        for unit, amount in claim.takes:
            if isinstance(unit, Gpu) and unit in left:
                left[unit] -= sign * amount
        self.cpu_free -= sign * claim.cpu_milli
        self.memory_free -= sign * claim.memory_bytes
        for name, amount in claim.extended:
            add_to(self.extended, name, sign * amount)


def has_room(free: Sequence[int], fraction: Fraction) -> bool:
    """Whether each container finds slices on one card of the `free` ones: one sum if cards are unknown."""
    if len(free) == 1:
        return free[0] >= fraction.slices
    left = list(free)
    return all(take_from_one(left, slices) for slices in fraction.pieces)


def take_from_one(left: list[int], slices: int) -> bool:
    """Take slices from the card with the least sufficient room; return False if no card has enough."""
    fitting = [each for each in left if each >= slices]
    if fitting:
        left[left.index(min(fitting))] -= slices
    return bool(fitting)


def _give(left: list[int], slices: int) -> None:
    """Take slices from the card with the least sufficient room, else from the freest cards."""
    if take_from_one(left, slices):
        return
    for at in sorted(range(len(left)), key=lambda at: -left[at]):
        given = min(left[at], slices)
        left[at] -= given
        slices -= given
