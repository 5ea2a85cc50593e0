"""Decides which idle cards are divided so that waiting pods get their MIG instances.

Pure: the caller passes monotonic seconds. The rules:
- Namespaces take turns, the one for which cards were divided longest ago first; within a namespace the oldest
  pod comes first.
- A pod that fits free instances changes nothing: the scheduler will place it.
- Otherwise cards of the first node that can be divided for it are divided.
- These cards are never touched: a card with an instance that may be in use, a card of a node that is
  changing, and a divided card of a paused node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter

from controller.geometry.division import Changes, Room, changes_for
from controller.geometry.model import MigNode, MigRequest, NewDivision, Plan
from controller.watch.mig_facts import MigPod
from kube.matching import labels_match, tolerates
from service.turns import Pauses, in_turn

MAX_STEPS = 1_000_000
"""Comparisons of one plan, about a second; namespaces that it does not reach come first in the next."""
DIVISION_STEPS = 300
"""Steps that the search for the division of one card counts as."""
FIRST_PAUSE_SECONDS = 300.0
"""How long no card is divided for a pod that did not use those that were; twice as long each time."""
MEMORY_SECONDS = 3600.0
"""How long it counts that a namespace has had its turn."""
NO_ROOM = "no node that could be divided for it accepts pods and has enough free CPU and memory for it"
IN_USE = "all cards that could be divided for it have instances in use, or are divided for other pods"


class Planner:
    """Plans step after step, and remembers whose turn it was: a new one starts with the oldest pods."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        """When each namespace last had its turn."""
        self._unused = Pauses[str](FIRST_PAUSE_SECONDS)

    def plan(self, nodes: Iterable[MigNode], requests: Collection[MigRequest], now: float) -> Plan:
        """Return the divisions to begin."""
        self._unused.keep([each.mig.uid for each in requests])
        self._last = {name: at for name, at in self._last.items() if now - at < MEMORY_SECONDS}
        due = [
            each
            for each in requests
            if each.mig.constraints is not None and not self._unused.pauses(each.mig.uid, now)
        ]
        oldest = sorted(due, key=lambda each: (each.mig.created, each.pod.key))
        found = plan(nodes, in_turn(oldest, lambda each: each.pod.namespace, self._last))
        self._last |= dict.fromkeys(found.served, now)
        return found

    def divided(self, pods: Iterable[str], now: float) -> None:
        """Record that cards were divided for these pods, by UID."""
        for uid in pods:
            self._unused.refused(uid, now)


def plan(nodes: Iterable[MigNode], requests: Sequence[MigRequest], steps: int = MAX_STEPS) -> Plan:
    """Return the divisions to begin for requests, which are served in this order."""
    return _Planning(nodes, requests, steps).run()


class _Planning:
    def __init__(self, nodes: Iterable[MigNode], requests: Sequence[MigRequest], steps: int) -> None:
        # Undivided cards first.
        ordered = sorted(nodes, key=lambda node: (() not in node.division, node.name))
        self._rooms = [Room(node) for node in ordered]
        self._requests = requests
        self._steps = steps
        self._matching = dict[bytes, list[Room]]()
        """Nodes that accept the constraints with a digest."""
        self._waiting = Counter[str]()
        for request in requests:
            self._waiting.update(dict(request.mig.wants))
        self._used = Counter(self._waiting)
        for node in ordered:
            self._used.update(node.held)

    def run(self) -> Plan:
        unserved, failed = dict[str, str](), dict[tuple[object, ...], str]()
        seen, served = set[str](), set[str]()
        for request in self._requests:
            if self._steps <= 0:
                served |= seen
                break
            seen.add(request.pod.namespace)
            self._waiting.subtract(dict(request.mig.wants))
            result = failed.get(request.shape) or self._serve(request)
            if isinstance(result, str):
                unserved[request.mig.uid] = failed[request.shape] = result
            elif result:
                served.add(request.pod.namespace)
        divisions = {room.node.name: new for room in self._rooms if (new := room.planned) is not None}
        return Plan(divisions, unserved, frozenset(served))

    def _serve(self, request: MigRequest) -> str | bool:
        """Give a request free instances (False), divide cards for it (True), or return why not."""
        wants, matching = request.mig.wants, self._accepting(request.mig)
        rooms = [room for room in matching if room.has_room(request.pod)]
        self._steps -= 1 + 3 * len(matching)
        for room in rooms:
            if room.fits(wants):
                room.give(request, {})
                return False
        for room in rooms:
            if changes := self._changes(room, request):
                room.give(request, changes)
                return True
        return self._why_not(request, matching)

    def _accepting(self, mig: MigPod) -> list[Room]:
        """Return the nodes whose labels and taints a pod accepts."""
        asked = mig.constraints
        if asked is None:
            return []
        if mig.digest not in self._matching:
            self._steps -= len(self._rooms) * (1 + asked.size() // 64)
            self._matching[mig.digest] = [
                room
                for room in self._rooms
                if labels_match(asked, room.node.name, room.node.labels)
                and tolerates(asked.tolerations, room.node.taints)
            ]
        return self._matching[mig.digest]

    def _changes(self, room: Room, request: MigRequest, *, after_pause: bool = False) -> Changes | None:
        if not (cards := room.open_cards(after_pause=after_pause)):
            return None
        self._steps -= DIVISION_STEPS * sum(map(len, cards.values()))
        return changes_for(room, cards, request.mig.wants, self._waiting, self._used)

    def _why_not(self, request: MigRequest, matching: Sequence[Room]) -> str:
        """Return why no card can be divided for a request now."""
        roomy = [room for room in matching if room.node.has_room(request.pod)]
        paused = [(room.node.paused_until, room) for room in roomy if room.node.paused_until is not None]
        for end, room in sorted(paused, key=itemgetter(0)):
            if self._steps > 0 and self._changes(room, request, after_pause=True):
                return f"node {room.node.name} can be divided for it after a pause, not before {end}"
        return IN_USE if roomy else NO_ROOM


def is_still_wanted(new: NewDivision, node: MigNode | None, waiting: dict[str, MigRequest]) -> bool:
    """Whether a planned division can begin, and a pod that it is for still waits and has room there."""
    if node is None:
        return False
    pods = [waiting[uid].pod for uid in new.pods if uid in waiting]
    return node.is_changing or (node.is_idle_for(new.division) and any(map(node.has_room, pods)))
