"""Which card is divided again, and into what, so that pods that wait for MIG instances get them.

Pure: the same nodes and requests make the same plan. The rules:
- A request that fits into free instances changes nothing: the scheduler will place it.
- Otherwise an idle card is divided, in the way that serves most of the other waiting requests, then destroys
  fewest idle instances, then offers most of what is in use and asked for in the cluster.
- A card with an instance that may be in use is never touched, nor one whose instances were given to another
  request.
- Older requests come first; a node has one change at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from controller.geometry.division import CardChange, Room, divisions
from controller.geometry.model import Amounts, Change, MigNode, MigRequest

MAX_REQUESTS = 100
"""The oldest ones that one plan looks at; the others' turn comes when these are served."""
MAX_OTHERS = 16
"""Further requests that a geometry is judged by."""
_Score = tuple[int, int, int, int]


def plan(nodes: Iterable[MigNode], requests: Iterable[MigRequest]) -> tuple[Change, ...]:
    """Return the changes to begin now, one for a node at most; none where nothing helps or is needed."""
    rooms = [Room(node) for node in sorted(nodes, key=lambda node: node.name)]
    oldest = sorted(requests, key=lambda each: (each.since, each.key))[:MAX_REQUESTS]
    demand = _demand(rooms, oldest)
    waiting = [request for request in oldest if not _gets_free(rooms, request)]
    changes: list[Change] = []
    for position, request in enumerate(waiting):
        if _gets_free(rooms, request):
            continue
        others = waiting[position + 1 : position + 1 + MAX_OTHERS]
        best = _best(rooms, request, others, demand)
        if best is not None:
            room, division = best
            room.divide(division.card, division.geometry)
            room.give(request.wants)
            changes.append(Change(room.node.name, division.card, division.geometry, request.key))
    return tuple(changes)


def _demand(rooms: Sequence[Room], requests: Sequence[MigRequest]) -> Counter[str]:
    """Instances of each profile that are in use or asked for."""
    demand = Counter[str]()
    for room in rooms:
        demand.update(room.node.held)
    for request in requests:
        demand.update(dict(request.wants))
    return demand


def _gets_free(rooms: Sequence[Room], request: MigRequest) -> bool:
    """Give a request free instances, or those of a change under way, if there are enough on a node."""
    for room in rooms:
        if room.accepts(request) and room.fits(request.wants):
            room.give(request.wants)
            return True
    return False


def _best(
    rooms: Sequence[Room], request: MigRequest, others: Sequence[MigRequest], demand: Counter[str]
) -> tuple[Room, CardChange] | None:
    best: tuple[_Score, Room, CardChange] | None = None
    seen = set[tuple[object, ...]]()
    for room in rooms:
        if not room.is_open or not room.accepts(request):
            continue
        state = _state(room, others)
        if state in seen:
            continue
        seen.add(state)
        for division in divisions(room, request.wants):
            score = _score(room, division, request.wants, others, demand)
            if best is None or score > best[0]:
                best = score, room, division
    return best and best[1:]


def _state(room: Room, others: Sequence[MigRequest]) -> tuple[object, ...]:
    """Everything of a node that its score depends on: nodes in the same state are looked at once."""
    node = room.node
    free = tuple(sorted(room.free.items()))
    held = tuple(sorted(node.held.items()))
    return node.card, node.geometries, held, free, tuple(room.accepts(other) for other in others)


def _score(
    room: Room,
    division: CardChange,
    wants: Amounts,
    others: Sequence[MigRequest],
    demand: Counter[str],
) -> _Score:
    """How good a division is: few changes, many requests served, few instances destroyed, many in demand."""
    before, after = Counter(room.node.geometries[division.card]), Counter(division.geometry)
    free = Counter(room.free)
    free.update(after)
    free.subtract(before)
    free.subtract(dict(wants))
    served = 0
    for other in others:
        if room.accepts(other) and all(free[name] >= count for name, count in other.wants):
            free.subtract(dict(other.wants))
            served += 1
    destroyed = sum((before - after).values())
    card = room.node.card
    offered = sum(demand[each.name] * each.memory * after[each.name] for each in card.profiles)
    return -division.changes, served, -destroyed, offered
