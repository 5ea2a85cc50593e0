"""Decides which cards get a new division so that waiting pods get their MIG instances.

Pure: the same nodes, requests and turns give the same plan. The rules:
- Namespaces take turns, the least recently served first; within a namespace older requests come first.
- A request that fits into free instances changes nothing: the scheduler will place it.
- Otherwise idle cards of one node are divided, in the way that serves most of the other waiting requests,
  then destroys fewest idle instances, then offers most of the profiles in demand in the cluster.
- These cards are never touched: a card with an instance that may be in use, one whose instances were given to
  another request, and a divided card of a paused node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from controller.geometry.division import CardChanges, Room, divisions
from controller.geometry.model import (
    Change,
    MigNode,
    MigRequest,
    Plan,
    Steps,
    Unserved,
    UnservedReason,
)
from modes.facts import PodKey
from service.turns import in_turn

MAX_REQUESTS = 100
"""Requests that one plan looks at."""
MAX_OTHERS = 16
"""Other requests that a division is scored by."""
MAX_STEPS = 100_000
"""Steps of one plan, about a second; requests that it does not reach come first in the next."""
MAX_REQUEST_STEPS = MAX_STEPS // 10
"""Steps for one request: nodes that it does not reach by then are skipped."""
Turns = Mapping[str, float]
"""When each namespace was last served; a namespace that never was is missing."""
_Score = tuple[int, int, int, int]
_Shape = tuple[object, ...]


def turn_key(namespace: str, oldest: str, turns: Turns) -> tuple[float, str, str]:
    """Return the sort key of namespaces: the last turn, then the age of the oldest request."""
    return turns.get(namespace, float("-inf")), oldest, namespace


def plan(
    nodes: Iterable[MigNode],
    requests: Iterable[MigRequest],
    turns: Turns = MappingProxyType({}),
    work: Steps | None = None,
) -> Plan:
    """Return the changes to start now, and why the other requests have none."""
    rooms = [Room(node) for node in sorted(nodes, key=lambda node: node.name)]
    oldest = sorted(requests, key=lambda each: (each.since, each.key))
    ordered = in_turn(oldest, lambda each: each.key[0], turns)[:MAX_REQUESTS]
    return _Planner(rooms, ordered, Steps(MAX_STEPS) if work is None else work).plan()


class _Planner:
    def __init__(self, rooms: Sequence[Room], requests: Sequence[MigRequest], work: Steps) -> None:
        self._rooms = rooms
        self._requests = requests
        self._work = work
        self._demand = _demand(rooms, requests)
        self._changes: list[Change] = []
        self._set_aside: dict[PodKey, str] = {}
        self._failed: dict[_Shape, Unserved] = {}
        """Results for requests of the same shape: a later one finds no more."""

    def plan(self) -> Plan:
        lacking = self._lacking()
        unserved = dict[PodKey, Unserved]()
        reached = set[str]()
        for position, request in enumerate(self._requests):
            if self._work.is_over:
                break
            reached.add(request.key[0])
            if self._gets_free(request):
                continue
            others = [each for each in self._requests[position + 1 :] if each.key in lacking][:MAX_OTHERS]
            found = self._failed.get(_shape(request)) or self._divide(request, others)
            if found is not None:
                unserved[request.key] = self._failed[_shape(request)] = found
        unreached = frozenset(request.key[0] for request in self._requests) - reached
        return Plan(tuple(self._changes), self._set_aside, unserved, unreached)

    def _lacking(self) -> set[PodKey]:
        """Requests that would not fit if everything free were given out in order."""
        rooms = [Room(room.node) for room in self._rooms]
        lacking = set[PodKey]()
        for request in self._requests:
            room = next((each for each in rooms if _takes(each, request)), None)
            if room is not None:
                room.give(request)
            else:
                lacking.add(request.key)
        return lacking

    def _gets_free(self, request: MigRequest) -> bool:
        """Give a request free instances, or those of a change in progress, if one node has enough."""
        for room in self._rooms:
            if _takes(room, request):
                room.give(request)
                if not room.node.is_changing and room.geometries == list(room.node.geometries):
                    self._set_aside[request.key] = room.node.name
                return True
        return False

    def _divide(self, request: MigRequest, others: Sequence[MigRequest]) -> Unserved | None:
        """Divide cards for a request; return why that is impossible now."""
        best = self._best(request, others)
        if best is None:
            return self._why_not(request)
        room, changes = best
        room.divide(changes)
        room.give(request)
        self._changes += [
            Change(room.node.name, card, geometry, request.key, request.uid) for card, geometry in changes
        ]
        return None

    def _best(self, request: MigRequest, others: Sequence[MigRequest]) -> tuple[Room, CardChanges] | None:
        best: tuple[_Score, Room, CardChanges] | None = None
        seen = set[tuple[object, ...]]()
        until = max(0, self._work.left - MAX_REQUEST_STEPS)
        for room in self._rooms:
            if self._work.left <= until:
                break
            if not room.accepts(request) or not room.open_cards():
                continue
            self._work.spend(1 + len(others))
            state = _state(room, others)
            if state in seen:
                continue
            seen.add(state)
            for changes in divisions(room, request.wants, self._work):
                self._work.spend(1 + len(others))
                score = self._score(room, changes, request, others)
                if best is None or score > best[0]:
                    best = score, room, changes
        return best and best[1:]

    def _score(
        self, room: Room, changes: CardChanges, request: MigRequest, others: Sequence[MigRequest]
    ) -> _Score:
        """Score a division: few cards, many requests served, few instances destroyed, many in demand."""
        before = Counter(name for card, _ in changes for name in room.geometries[card])
        after = Counter(name for _, geometry in changes for name in geometry)
        free = Counter(room.free)
        free.update(after)
        free.subtract(before)
        free.subtract(dict(request.wants))
        served = 0
        for other in others:
            if room.accepts(other) and all(free[name] >= count for name, count in other.wants):
                free.subtract(dict(other.wants))
                served += 1
        destroyed = sum((before - after).values())
        card = room.node.card
        offered = sum(self._demand[each.name] * each.memory * after[each.name] for each in card.profiles)
        return -len(changes), served, -destroyed, offered

    def _why_not(self, request: MigRequest) -> Unserved:
        """Return why no card can be divided for a request now."""
        rooms = [room for room in self._rooms if request.nodes is None or room.node.name in request.nodes]
        fresh = [room for each in rooms if (room := Room(each.node)).accepts(request)]
        if not fresh:
            return Unserved(UnservedReason.NO_ROOM)
        promised = {room.node.name for room in rooms if room.is_promised}
        if any(room.node.name in promised and self._can_hold(room, request) for room in fresh):
            return Unserved(UnservedReason.NOT_ITS_TURN)
        paused = [room for room in fresh if room.node.paused_until is not None]
        for room in sorted(paused, key=lambda each: each.node.paused_until or 0.0):
            if self._can_hold(room, request, after_pause=True):
                return Unserved(UnservedReason.PAUSED, room.node)
        return Unserved(UnservedReason.IN_USE)

    def _can_hold(self, room: Room, request: MigRequest, *, after_pause: bool = False) -> bool:
        if room.fits(request.wants):
            return True
        if self._work.is_over:
            return False
        found = divisions(room, request.wants, self._work, after_pause=after_pause)
        return next(found, None) is not None


def _takes(room: Room, request: MigRequest) -> bool:
    return room.accepts(request) and room.fits(request.wants)


def _shape(request: MigRequest) -> _Shape:
    return request.wants, request.nodes, request.cpu_milli, request.memory_bytes


def _demand(rooms: Sequence[Room], requests: Sequence[MigRequest]) -> Counter[str]:
    """Instances of each profile that are in use or requested."""
    demand = Counter[str]()
    for room in rooms:
        demand.update(room.node.held)
    for request in requests:
        demand.update(dict(request.wants))
    return demand


def _state(room: Room, others: Sequence[MigRequest]) -> tuple[object, ...]:
    """Everything that a node's score depends on: nodes in the same state are searched once."""
    node = room.node
    free = tuple(sorted(room.free.items()))
    held = tuple(sorted(node.held.items()))
    return (
        node.card,
        tuple(room.geometries),
        room.open_cards(),
        held,
        free,
        tuple(room.accepts(other) for other in others),
    )
