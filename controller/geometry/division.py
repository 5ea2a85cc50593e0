"""How to divide the idle cards of one node so that a pod's instances fit there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from controller.geometry.model import Amounts, Division, MigNode, MigRequest, NewDivision
from modes.facts import PodFact
from modes.mig_geometry import Geometry, full_geometries

Changes = dict[int, Geometry]
"""Cards that are divided together: the new geometry of each."""


class Room:
    """A node while a plan is made."""

    def __init__(self, node: MigNode) -> None:
        self.node = node
        self.free = Counter(name for names in node.division for name in names)
        """Instances that no pod holds and no request was given."""
        self.free.subtract(node.held)
        self._idle = [] if node.is_changing else sorted(node.idle)
        self._changes: Changes = {}
        self._pods = set[str]()
        self._cpu_taken = self._memory_taken = 0

    @property
    def planned(self) -> NewDivision | None:
        """The division to begin; None if the node stays as it is."""
        cards: Division = tuple(self._changes.get(at, names) for at, names in enumerate(self.node.division))
        return NewDivision(cards, frozenset(self._pods)) if self._changes else None

    def has_room(self, pod: PodFact) -> bool:
        """Whether CPU and memory are left for the pod."""
        return self.node.has_room(pod, self._cpu_taken, self._memory_taken)

    def fits(self, wants: Amounts) -> bool:
        """Whether the node has these instances free."""
        return all(self.free[name] >= count for name, count in wants)

    def give(self, request: MigRequest, changes: Mapping[int, Geometry]) -> None:
        """Divide these cards for a request, and give it its instances, CPU and memory."""
        for card, names in changes.items():
            self.free.subtract(self.node.division[card])
            self.free.update(names)
        if changes:
            self._changes.update(changes)
            self._pods.add(request.mig.uid)
        self.free.subtract(dict(request.mig.wants))
        self._cpu_taken += request.pod.cpu_milli
        self._memory_taken += request.pod.memory_bytes

    def open_cards(self, *, after_pause: bool = False) -> dict[Geometry, list[int]]:
        """Return the idle cards that may change now, or after the pause, by their geometry."""
        is_paused, found = self.node.paused_until is not None and not after_pause, dict[Geometry, list[int]]()
        for card in self._idle:
            names = self.node.division[card]
            if card not in self._changes and not (names and is_paused):
                found.setdefault(names, []).append(card)
        return found


def changes_for(
    room: Room,
    cards: dict[Geometry, list[int]],
    wants: Amounts,
    waiting: Mapping[str, int],
    used: Mapping[str, int],
) -> Changes | None:
    """Return changes of these idle cards that make a request fit; None if none are found.

    Each next change is the one after which least is missing. Of equal ones, it serves most of what other pods
    wait for, destroys fewest instances, and offers most of the profiles in use.

    Args:
        room: the node.
        cards: cards that may change, by their geometry.
        wants: instances of the request.
        waiting: instances of each profile that other pods wait for.
        used: instances of each profile that are held or requested in the cluster.
    """
    card = room.node.card
    memory = Counter({profile.name: profile.memory for profile in card.profiles})
    free, changes, count_of_cards = room.free, Changes(), sum(map(len, cards.values()))
    most = {profile.name: profile.most for profile in card.profiles}
    if any(count > free[name] + count_of_cards * most.get(name, 0) for name, count in wants):
        return None
    useful = [names for names in full_geometries(card) if any(name in names for name, _ in wants)]

    def missing(free: Counter[str]) -> int:
        return sum(memory[name] * max(0, count - free[name]) for name, count in wants)

    def rank(before: Geometry, after: Geometry) -> tuple[int, int, int, int]:
        rest = Counter(after)
        rest.subtract(dict(wants))
        serves = sum(memory[name] * max(0, min(count, waiting.get(name, 0))) for name, count in rest.items())
        offers = sum(memory[name] * used.get(name, 0) for name in after)
        gone = sum((Counter(before) - Counter(after)).values())
        return missing(_changed(free, before, after)), -serves, gone, -offers

    while lack := missing(free):
        ranked = [(rank(before, after), before, after) for before in cards for after in useful]
        best, before, after = min(ranked, default=((lack,), (), ()))
        if best[0] >= lack:
            return None
        free = _changed(free, before, after)
        changes[cards[before].pop(0)] = after
        cards = {names: left for names, left in cards.items() if left}
    return changes


def _changed(free: Mapping[str, int], before: Geometry, after: Geometry) -> Counter[str]:
    """Return what is free after one card was divided differently."""
    changed = Counter(free)
    changed.subtract(before)
    changed.update(after)
    return changed
