"""How the idle cards of one node can be divided so that a request fits there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.geometry.model import Amounts, MigNode, MigRequest
from modes.mig_geometry import Geometry, full_geometries, most_instances

MAX_STEPS = 2000
"""Divisions of single cards that are tried for one request on one node."""


@dataclass(frozen=True, slots=True)
class CardChange:
    """The first of some changes after which a request fits on a node."""

    card: int
    geometry: Geometry
    changes: int
    """How many cards have to be divided in all; the others' turn comes when this is done."""


@dataclass(slots=True)
class Room:
    """A node while a plan is made."""

    node: MigNode
    free: Counter[str] = field(init=False)
    """Instances that no pod holds and no request was given; negative where a request still waits for some."""
    is_open: bool = field(init=False)
    """Whether a card of it may be divided in this plan: one at a time."""

    def __post_init__(self) -> None:
        self.free = self.node.total
        self.free.subtract(self.node.held)
        self.is_open = not self.node.is_changing

    def accepts(self, request: MigRequest) -> bool:
        """Whether the pod may run on this node."""
        return request.nodes is None or self.node.name in request.nodes

    def fits(self, wants: Amounts) -> bool:
        """Whether so many instances are free."""
        return all(self.free[name] >= count for name, count in wants)

    def give(self, wants: Amounts) -> None:
        """Set instances aside, also those that are still to be made."""
        self.free.subtract(dict(wants))

    def divide(self, card: int, geometry: Geometry) -> None:
        """Count a card as divided so."""
        self.free.update(geometry)
        self.free.subtract(self.node.geometries[card])
        self.is_open = False


def divisions(room: Room, wants: Amounts) -> Iterator[CardChange]:
    """All first changes of the shortest way to make a request fit here; none where there is no way now.

    No instance that was given to another request goes, and no card with an instance in use is touched.
    """
    if any(not most_instances(room.node.card, name) for name, _ in wants):
        return
    idle = room.node.idle
    search = _Search(room, dict(wants))
    # Each change has to bring an instance that is lacking.
    for changes in range(1, min(len(idle), search.lack) + 1):
        if search.bound(changes):
            continue
        found = False
        for card, geometry, free in search.first_steps(room.free, idle):
            if search.completes(free, tuple(other for other in idle if other != card), changes - 1):
                found = True
                yield CardChange(card, geometry, changes)
        if found or search.steps >= MAX_STEPS:
            return


class _Search:
    def __init__(self, room: Room, wants: dict[str, int]) -> None:
        self._room = room
        self._wants = wants
        self._useful = [
            each for each in full_geometries(room.node.card) if any(name in wants for name in each)
        ]
        self.steps = 0

    @property
    def lack(self) -> int:
        """Instances that are wanted and not free."""
        return sum(lack for _, lack in self._lacking(self._room.free))

    def bound(self, changes: int) -> bool:
        """Whether so many changes cannot be enough, whatever they are."""
        card = self._room.node.card
        return any(
            lack > changes * most_instances(card, name) for name, lack in self._lacking(self._room.free)
        )

    def first_steps(
        self, free: Counter[str], cards: tuple[int, ...]
    ) -> Iterator[tuple[int, Geometry, Counter[str]]]:
        """Cards, one of those that are divided alike, with each useful geometry and what is free then."""
        seen = set[Geometry]()
        for card in cards:
            before = self._room.node.geometries[card]
            if before in seen:
                continue
            seen.add(before)
            for geometry in self._useful:
                after = Counter(free)
                after.update(geometry)
                after.subtract(before)
                if geometry != before and all(after[name] >= min(0, free[name]) for name in before):
                    yield card, geometry, after

    def completes(self, free: Counter[str], idle: tuple[int, ...], changes: int) -> bool:
        """Whether the request fits after so many more changes."""
        self.steps += 1
        lacking = self._lacking(free)
        if not lacking or not changes or self.steps > MAX_STEPS:
            return not lacking
        card = self._room.node.card
        if any(lack > changes * most_instances(card, name) for name, lack in lacking):
            return False
        return any(
            self.completes(after, tuple(other for other in idle if other != index), changes - 1)
            for index, _, after in self.first_steps(free, idle)
        )

    def _lacking(self, free: Counter[str]) -> list[tuple[str, int]]:
        return [(name, count - free[name]) for name, count in self._wants.items() if free[name] < count]
