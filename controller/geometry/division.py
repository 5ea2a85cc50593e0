"""How to divide the idle cards of one node so that a request fits there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controller.geometry.model import Amounts, MigNode, MigRequest, Steps
from modes.mig_geometry import Geometry, full_geometries, most_instances

MAX_STEPS = 2000
"""Divisions of single cards that are tried per request and node."""
CardChanges = tuple[tuple[int, Geometry], ...]
"""Cards that are divided together: index of each card, and its new geometry."""


@dataclass(slots=True)
class Room:
    """A node while a plan is computed."""

    node: MigNode
    free: Counter[str] = field(init=False)
    """Instances that no pod holds and no request was given; negative if a request still waits for some."""
    geometries: list[Geometry] = field(init=False)
    """The geometry of each card, with this plan applied."""
    is_promised: bool = False
    """Whether this plan gives a request something of the node."""
    _changed: set[int] = field(init=False, default_factory=set)
    _cpu_free: int = field(init=False)
    _memory_free: int = field(init=False)

    def __post_init__(self) -> None:
        self.free = self.node.total
        self.free.subtract(self.node.held)
        self.geometries = list(self.node.geometries)
        self._cpu_free, self._memory_free = self.node.cpu_free, self.node.memory_free

    def accepts(self, request: MigRequest) -> bool:
        """Whether the pod may run on this node, and fits its CPU and memory."""
        return (
            (request.nodes is None or self.node.name in request.nodes)
            and request.cpu_milli <= self._cpu_free
            and request.memory_bytes <= self._memory_free
        )

    def fits(self, wants: Amounts) -> bool:
        """Whether the node has these instances free."""
        return all(self.free[name] >= count for name, count in wants)

    def give(self, request: MigRequest) -> None:
        """Reserve the instances of a request, including those still to be created."""
        self.free.subtract(dict(request.wants))
        self._cpu_free -= request.cpu_milli
        self._memory_free -= request.memory_bytes
        self.is_promised = True

    def divide(self, changes: CardChanges) -> None:
        """Count these cards as divided in this way, in the plan."""
        for card, geometry in changes:
            self.free.update(geometry)
            self.free.subtract(self.geometries[card])
            self.geometries[card] = geometry
            self._changed.add(card)

    def open_cards(self, *, after_pause: bool = False) -> tuple[int, ...]:
        """Cards that may be divided: idle ones; during a pause, only cards that are not divided yet."""
        if self.node.is_changing:
            return ()
        is_paused = self.node.paused_until is not None and not after_pause
        return tuple(
            index
            for index in self.node.idle
            if index not in self._changed and not (is_paused and self.geometries[index])
        )


def divisions(room: Room, wants: Amounts, work: Steps, *, after_pause: bool = False) -> Iterator[CardChanges]:
    """Yield divisions of as few cards as possible that make a request fit: one for each first step.

    Yields nothing if no division works now. Instances given to another request stay, and cards with an
    instance in use are not touched.
    """
    if any(not most_instances(room.node.card, name) for name, _ in wants):
        return
    cards = room.open_cards(after_pause=after_pause)
    search = _Search(room, dict(wants), work)
    # Each change must add an instance that is missing.
    for changes in range(1, min(len(cards), search.lack) + 1):
        if search.bound(room.free, changes):
            continue
        found = False
        for card, geometry, free in search.first_steps(room.free, cards):
            rest = search.completed(free, _without(cards, card), changes - 1)
            if rest is not None:
                found = True
                yield ((card, geometry), *rest)
        if found or search.is_over:
            return


class _Search:
    def __init__(self, room: Room, wants: dict[str, int], work: Steps) -> None:
        self._room = room
        self._wants = wants
        self._useful = [
            each for each in full_geometries(room.node.card) if any(name in wants for name in each)
        ]
        self._work = work
        self._until = work.left - MAX_STEPS

    @property
    def is_over(self) -> bool:
        """Whether the search has tried as many divisions as it may."""
        return self._work.is_over or self._work.left < self._until

    @property
    def lack(self) -> int:
        """Instances that are requested and not free."""
        return sum(lack for _, lack in self._lacking(self._room.free))

    def bound(self, free: Mapping[str, int], changes: int) -> bool:
        """Whether this many changes can never be enough."""
        card = self._room.node.card
        return any(lack > changes * most_instances(card, name) for name, lack in self._lacking(free))

    def first_steps(
        self, free: Mapping[str, int], cards: tuple[int, ...]
    ) -> Iterator[tuple[int, Geometry, Mapping[str, int]]]:
        """Yield one of each set of equal cards, with each useful geometry and what is free then."""
        seen = set[Geometry]()
        for card in cards:
            before = self._room.geometries[card]
            if before in seen:
                continue
            seen.add(before)
            for geometry in self._useful:
                self._work.spend()
                after = _changed(free, before, geometry)
                if geometry != before and all(after[name] >= min(0, free.get(name, 0)) for name in before):
                    yield card, geometry, after

    def completed(self, free: Mapping[str, int], cards: tuple[int, ...], changes: int) -> CardChanges | None:
        """Return this many more changes that make the request fit; None if none are found."""
        if not self._lacking(free):
            return ()
        if not changes or self.is_over or self.bound(free, changes):
            return None
        for card, geometry, after in self.first_steps(free, cards):
            rest = self.completed(after, _without(cards, card), changes - 1)
            if rest is not None:
                return ((card, geometry), *rest)
        return None

    def _lacking(self, free: Mapping[str, int]) -> list[tuple[str, int]]:
        missing = [(name, count - free.get(name, 0)) for name, count in self._wants.items()]
        return [(name, lack) for name, lack in missing if lack > 0]


def _changed(free: Mapping[str, int], before: Geometry, after: Geometry) -> dict[str, int]:
    """Return what is free after one card was divided differently."""
    changed = dict(free)
    for name in after:
        changed[name] = changed.get(name, 0) + 1
    for name in before:
        changed[name] = changed.get(name, 0) - 1
    return changed


def _without(cards: tuple[int, ...], card: int) -> tuple[int, ...]:
    return tuple(other for other in cards if other != card)
