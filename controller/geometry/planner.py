"""Decides which idle cards are divided so that waiting pods get their MIG instances.

Pure. The rules:
- Namespaces take turns, the one for which cards were divided longest ago first; within a namespace the oldest
  pod comes first.
- A pod that fits free instances changes nothing: the scheduler will place it.
- Otherwise cards of the first node that can be divided for it are divided.
- These cards are never touched: a card with an instance that may be in use, a card of a node that is
  changing, and a divided card of a paused node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from controller.geometry.model import Amounts, Division, MigNode, MigRequest, NewDivision, Plan
from controller.watch.mig_facts import MigPod
from kube.matching import labels_match, tolerates
from modes.mig_geometry import Geometry, full_geometries
from service.turns import in_turn

PLAN_SECONDS = 1.0
"""CPU time after which a plan looks at no other pod; the next one begins with namespaces not reached."""
NO_CARD = (
    "no node that is divided on demand has a card with these MIG profiles: ask for one that"
    " nvidia-smi mig -lgip lists"
)
NO_ROOM = "no node that could be divided for it accepts pods and has enough free CPU and memory for it"
IN_USE = (
    "all cards that could be divided for it have instances in use, are divided for other pods, or are kept"
    " for some minutes as they were just divided"
)
Changes = dict[int, Geometry]
"""Cards that are divided together: the new geometry of each."""


class Planner:
    """Plans step after step, and remembers whose turn it was: a new one starts with the oldest pods."""

    def __init__(self, cpu_seconds: Callable[[], float] = lambda: 0.0) -> None:
        """`cpu_seconds` returns the CPU time of the thread that plans."""
        self._cpu_seconds = cpu_seconds
        self._last: dict[str, float] = {}
        """When cards were last divided for pods of each namespace that waits."""

    def plan(self, nodes: Iterable[MigNode], requests: Collection[MigRequest], now: float) -> Plan:
        """Return the divisions to begin."""
        namespaces = {each.mig.uid: each.pod.namespace for each in requests}
        oldest = sorted(requests, key=lambda each: (each.mig.created, each.pod.key))
        planning = _Planning(nodes, in_turn(oldest, lambda each: each.pod.namespace, self._last))
        found = planning.run(self._cpu_seconds)
        served = [namespaces[uid] for new in found.divisions.values() for uid in new.pods]
        waiting = set(namespaces.values())
        self._last = {name: at for name, at in self._last.items() if name in waiting}
        self._last |= dict.fromkeys([*served, *planning.had_their_turn], now)
        return found


class _Room:
    """A node while a plan is made."""

    def __init__(self, node: MigNode) -> None:
        self.node = node
        self.free = Counter(name for names in node.division for name in names)
        """Instances that no pod holds and no request was given."""
        self.free.subtract(node.held)
        self._open = [] if node.is_changing else sorted(node.idle)
        if node.is_paused:
            self._open = [card for card in self._open if not node.division[card]]
        self._changes: Changes = {}
        self._pods = set[str]()
        self.cpu_taken = self.memory_taken = 0

    @property
    def planned(self) -> NewDivision | None:
        """The division to begin; None if the node stays as it is."""
        cards: Division = tuple(self._changes.get(at, names) for at, names in enumerate(self.node.division))
        return NewDivision(cards, frozenset(self._pods)) if self._changes else None

    def fits(self, wants: Amounts) -> bool:
        """Whether the node has these instances free."""
        return all(self.free[name] >= count for name, count in wants)

    def give(self, request: MigRequest, changes: Mapping[int, Geometry]) -> None:
        """Divide these cards for a request, and give it its instances, CPU and memory."""
        for card, names in changes.items():
            self.free = _changed(self.free, self.node.division[card], names)
            self._open.remove(card)
        if changes:
            self._changes.update(changes)
            self._pods.add(request.mig.uid)
        self.free.subtract(dict(request.mig.wants))
        self.cpu_taken += request.pod.cpu_milli
        self.memory_taken += request.pod.memory_bytes

    def changes_for(self, wants: Amounts, waiting: Mapping[str, int]) -> Changes:
        """Return changes of idle cards that make a request for `wants` fit; empty if none are found.

        Each next change is the one after which least is missing. Of equal ones, it serves most of what other
        pods wait for (`waiting`, by profile), and destroys fewest instances.
        """
        profiles, division, cards = self.node.card.profiles, self.node.division, list(self._open)
        memory = Counter({profile.name: profile.memory for profile in profiles})
        most = {profile.name: profile.most * len(cards) for profile in profiles}
        if any(count > self.free[name] + most.get(name, 0) for name, count in wants):
            return {}
        useful = [each for each in full_geometries(self.node.card) if any(name in each for name, _ in wants)]

        def missing(free: Counter[str]) -> int:
            return sum(memory[name] * max(0, count - free[name]) for name, count in wants)

        def rank(card: int, after: Geometry) -> tuple[int, int, int]:
            rest = Counter(after)
            rest.subtract(dict(wants))
            serves = sum(
                memory[name] * max(0, min(count, waiting.get(name, 0))) for name, count in rest.items()
            )
            gone = (Counter(division[card]) - Counter(after)).total()
            return missing(_changed(free, division[card], after)), -serves, gone

        free, changes = self.free, Changes()
        while lack := missing(free):
            alike = {division[card]: card for card in reversed(cards)}.values()
            ranked = [(rank(card, after), card, after) for card in alike for after in useful]
            best, card, after = min(ranked, default=((lack,), 0, ()))
            if best[0] >= lack:
                return {}
            free, changes[card] = _changed(free, division[card], after), after
            cards.remove(card)
        return changes


class _Planning:
    def __init__(self, nodes: Iterable[MigNode], requests: Sequence[MigRequest]) -> None:
        # Undivided cards first.
        ordered = sorted(nodes, key=lambda node: (() not in node.division, node.name))
        self._rooms = [_Room(node) for node in ordered]
        self._requests = requests
        self.had_their_turn = frozenset[str]()
        """Namespaces with a request that was looked at, if there was no time for all requests."""
        self._matching = dict[bytes, list[_Room]]()
        """Nodes that accept the constraints with a digest."""
        self._waiting = Counter[str]()
        for request in requests:
            self._waiting.update(dict(request.mig.wants))

    def run(self, cpu_seconds: Callable[[], float]) -> Plan:
        unserved, failed = dict[str, str](), dict[tuple[object, ...], str]()
        end, seen = cpu_seconds() + PLAN_SECONDS, set[str]()
        for request in self._requests:
            if seen and cpu_seconds() >= end:
                self.had_their_turn = frozenset(seen)
                break
            seen.add(request.pod.namespace)
            self._waiting.subtract(dict(request.mig.wants))
            if request.shape not in failed:
                if (why_not := self._serve(request)) is None:
                    continue
                failed[request.shape] = why_not
            unserved[request.mig.uid] = failed[request.shape]
        divisions = {room.node.name: new for room in self._rooms if (new := room.planned) is not None}
        return Plan(divisions, unserved)

    def _serve(self, request: MigRequest) -> str | None:
        """Give a request free instances, or divide cards for it; return why not if that is impossible now."""
        wants, matching = request.mig.wants, self._accepting(request.mig)
        rooms = [
            room for room in matching if room.node.has_room(request.pod, room.cpu_taken, room.memory_taken)
        ]
        for room in rooms:
            if room.fits(wants):
                room.give(request, {})
                return None
        for room in rooms:
            if changes := room.changes_for(wants, self._waiting):
                room.give(request, changes)
                return None
        names = {name for name, _ in wants}
        if not any(names <= {profile.name for profile in room.node.card.profiles} for room in self._rooms):
            return NO_CARD
        return IN_USE if any(room.node.has_room(request.pod) for room in matching) else NO_ROOM

    def _accepting(self, mig: MigPod) -> list[_Room]:
        """Return the nodes whose labels and taints a pod accepts."""
        asked = mig.constraints
        if asked is None:
            return []
        if mig.digest not in self._matching:
            self._matching[mig.digest] = [
                room
                for room in self._rooms
                if labels_match(asked, room.node.name, room.node.labels)
                and tolerates(asked.tolerations, room.node.taints)
            ]
        return self._matching[mig.digest]


def is_still_wanted(new: NewDivision, node: MigNode | None, waiting: dict[str, MigRequest]) -> bool:
    """Whether a planned division can begin, and a pod that it is for still waits and has room there."""
    if node is None:
        return False
    pods = [waiting[uid].pod for uid in new.pods if uid in waiting]
    return node.is_changing or (node.is_idle_for(new.division) and any(map(node.has_room, pods)))


def _changed(free: Mapping[str, int], before: Geometry, after: Geometry) -> Counter[str]:
    """Return what is free after one card was divided differently."""
    changed = Counter(free)
    changed.subtract(before)
    changed.update(after)
    return changed
