"""Nodes grouped by the state of their GPUs, so that a decision looks at states and not at nodes.

Nodes of one class whose GPUs have the same free slices differ for a pod only in CPU and memory. A group keeps
them by free CPU; the groups of a class are ranked, for each size of pod, by the part of the score that GPUs
alone decide. CPU can only lower that score for a pod with more CPU than most, and can raise it for a pod with
less only on nodes that are short of CPU; so walking a ranking down from its top ends early.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

from ledger.accounts import NodeAccount
from ledger.ask import Ask
from ledger.demand import UNIT, Worth
from ledger.fraction import Fraction
from ledger.scoring import cpu_score

State = tuple[int, ...]
"""Free slices of a node's GPUs, sorted."""
Found = tuple[int, NodeAccount]
"""A score and the node that has it."""
_EMPTY_GROUPS_KEPT = 64


class Search:
    """One pod looking for its best node."""

    __slots__ = ("accepts", "cpu_milli", "memory_bytes", "most_gained", "size", "worth")

    def __init__(self, ask: Ask, worth: Worth, accepts: Callable[[NodeAccount], bool] | None) -> None:
        self.worth = worth
        self.accepts = accepts
        """Asked of each node before it is taken; None takes all."""
        self.size = ask.fraction
        self.cpu_milli = ask.cpu_milli
        self.memory_bytes = ask.memory_bytes
        self.most_gained = ask.fraction.slices * UNIT - ask.cpu_milli * worth.cpu
        """What a node short of CPU may add to the score; above zero for a pod with less CPU than most."""


class Group:
    """Nodes of one class in one state, by free CPU."""

    __slots__ = ("bases", "free", "hopeless", "nodes", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.free = sum(state)
        self.nodes: list[tuple[int, str, NodeAccount]] = []
        self.bases: dict[int, int] = {}
        """Score without CPU by size of pod, where there is room."""
        self.hopeless: tuple[int, int] | None = None
        """CPU and memory that no node here has together, until another node joins."""

    def add(self, account: NodeAccount) -> None:
        """Take a node in; the inverse of `remove`."""
        insort(self.nodes, (account.cpu_free, account.name, account))
        self.hopeless = None

    def remove(self, name: str, cpu_free: int) -> None:
        """Let a node go that came with so much free CPU; the inverse of `add`."""
        del self.nodes[bisect_left(self.nodes, (cpu_free, name))]

    def is_short_of_cpu(self, worth: Worth) -> bool:
        """Whether the node with the least free CPU has slices that lack CPU."""
        return bool(self.nodes) and self.nodes[0][0] * worth.cpu < self.free * UNIT

    def pick(self, search: Search) -> NodeAccount | None:
        """The node whose CPU suits the pod best, of those with room for it; of equals that with the least."""
        cpu, memory, accepts = search.cpu_milli, search.memory_bytes, search.accepts
        if not self.nodes or self.nodes[-1][0] < cpu:
            return None
        if self.hopeless is not None and cpu >= self.hopeless[0] and memory >= self.hopeless[1]:
            return None
        for position in self._by_suitability(search):
            account = self.nodes[position][2]
            if account.memory_free >= memory and (accepts is None or accepts(account)):
                return account
        if accepts is None:
            self.hopeless = (cpu, memory)
        return None

    def _by_suitability(self, search: Search) -> Iterable[int]:
        """Positions of nodes with enough CPU: upwards from where the score is at its best, then down."""
        first = bisect_left(self.nodes, (search.cpu_milli,))
        if search.most_gained > 0:
            return range(first, len(self.nodes))
        spared = self.free - search.size.slices
        unstranded = search.cpu_milli - (-spared * UNIT // search.worth.cpu)
        best = bisect_left(self.nodes, (unstranded,), first)
        return chain(range(best, len(self.nodes)), range(best - 1, first - 1, -1))


class Groups:
    """The groups of one class of nodes, for one way of counting GPUs.

    Args:
        base_score: The part of the score that GPUs alone decide, None where they have no room.
    """

    def __init__(self, base_score: Callable[[State, Fraction, Worth], int | None]) -> None:
        self._base_score = base_score
        self._groups: dict[State, Group] = {}
        self._occupied = 0
        self._worth: Worth | None = None
        self._rankings: dict[Fraction, list[tuple[int, State, Group]]] = {}
        self._short_of_cpu: dict[State, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, account: NodeAccount, state: State) -> Group:
        """Take a node in; the inverse of `remove`."""
        group = self._groups.get(state) or self._new_group(state)
        self._occupied += not group.nodes
        group.add(account)
        self._note_cpu(group)
        return group

    def remove(self, name: str, group: Group, cpu_free: int) -> None:
        """Let a node go that came with so much free CPU; the inverse of `add`."""
        group.remove(name, cpu_free)
        self._occupied -= not group.nodes
        self._note_cpu(group)
        if len(self._groups) > 2 * self._occupied + _EMPTY_GROUPS_KEPT:
            self._forget_empty_groups()

    def best(self, search: Search, found: Found | None) -> Found | None:
        """The best node here if it is better than the one found elsewhere, else that one."""
        for negative, _, group in self._ranking(search):
            if found is not None and -negative <= found[0]:
                break
            found = _better(group, -negative, search, found)
        if search.most_gained > 0:
            for group in self._short_of_cpu.values():
                base = group.bases.get(search.size.slices)
                if base is not None and (found is None or base + search.most_gained >= found[0]):
                    found = _better(group, base, search, found)
        return found

    def _ranking(self, search: Search) -> list[tuple[int, State, Group]]:
        if search.worth is not self._worth:
            self._start_anew(search.worth)
        ranking = self._rankings.get(search.size)
        if ranking is None:
            ranking = self._rankings[search.size] = []
            for group in self._groups.values():
                self._rank(group, search.size, search.worth, ranking.append)
            ranking.sort()
        return ranking

    def _rank(
        self, group: Group, size: Fraction, worth: Worth, put: Callable[[tuple[int, State, Group]], None]
    ) -> None:
        base = self._base_score(group.state, size, worth)
        if base is not None:
            group.bases[size.slices] = base
            put((-base, group.state, group))

    def _start_anew(self, worth: Worth) -> None:
        self._worth = worth
        self._rankings.clear()
        self._short_of_cpu.clear()
        for group in self._groups.values():
            group.bases.clear()
            self._note_cpu(group)

    def _new_group(self, state: State) -> Group:
        group = self._groups[state] = Group(state)
        if self._worth is not None:
            for size, ranking in self._rankings.items():
                self._rank(group, size, self._worth, partial(insort, ranking))
        return group

    def _note_cpu(self, group: Group) -> None:
        if self._worth is not None and group.is_short_of_cpu(self._worth):
            self._short_of_cpu[group.state] = group
        else:
            self._short_of_cpu.pop(group.state, None)

    def _forget_empty_groups(self) -> None:
        self._groups = {state: group for state, group in self._groups.items() if group.nodes}
        self._rankings.clear()


def _better(group: Group, base: int, search: Search, found: Found | None) -> Found | None:
    account = group.pick(search)
    if account is None:
        return found
    cpu = cpu_score(group.free, account.cpu_free, search.size.slices, search.cpu_milli, search.worth)
    score = base + cpu
    if found is None or score > found[0] or (score == found[0] and account.name < found[1].name):
        return score, account
    return found
