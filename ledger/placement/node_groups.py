"""Nodes grouped by the state of their GPUs, so that a decision looks at states and not at nodes.

Nodes of one class whose GPUs have the same free slices differ for a pod only in CPU and memory. A group keeps
them by free CPU; the groups of a class are ranked, for each size of pod, by the part of the score that GPUs
alone decide. CPU can raise that score only where slices are stranded for lack of it, and only by what a pod
takes up of them; so walking a ranking down from its top ends early, and of groups with stranded slices few
are asked.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ledger.accounts import NodeAccount
from ledger.placement.cards import CardSet, among
from ledger.placement.cpu_score import gains, most_gained, stranded, taken_up, turning_points
from ledger.placement.request_history import ShadowPrices
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction
from modes.mode import Mode
from modes.packing import score_among

State = tuple[int, ...] | tuple[tuple[int, ...], tuple[int, ...]]
"""Free slices of a node's GPUs, sorted; of an odd node apart by whether a pod takes them (cards.py)."""
Found = tuple[int, NodeAccount]
"""A score and the node that has it."""
_EMPTY_GROUPS_KEPT = 128
_MANY = 16
"""Nodes of a group that are not asked one by one."""
MAX_SIZES = 512
"""Sizes of pods that groups are ranked for; then all are ranked again as they come."""
MOST, LEAST = 2**256, -(2**256)
"""All scores lie between these."""
_NO_ROOM = 2 * LEAST
_SizeKey = int | tuple[int, ...]
"""Slices of a pod; with its GPUs where it asks a part of several; of each container, the largest first, where
these go to different GPUs. Tells sizes apart in one class."""
PricedKey = tuple[ShadowPrices, _SizeKey]
"""All that a score without CPU hangs on beside the nodes."""


class Search:
    """One pod looking for its best node."""

    __slots__ = (
        "accepts",
        "cpu_milli",
        "gains",
        "key",
        "memory_bytes",
        "most_gained",
        "priced_key",
        "prices",
        "size",
    )

    def __init__(
        self, request: PlacementRequest, prices: ShadowPrices, accepts: Callable[[NodeAccount], bool] | None
    ) -> None:
        self.prices = prices
        self.accepts = accepts
        """Asked of each node before it is taken; None takes all."""
        share = request.share
        self.size = share.fraction
        self.key = _size_key(share.fraction)
        self.priced_key: PricedKey = prices, self.key
        self.cpu_milli = share.cpu_milli
        self.memory_bytes = share.memory_bytes
        self.gains = gains(share.fraction.slices, share.cpu_milli, prices)
        self.most_gained = most_gained(self.gains)
        """What a node short of CPU may add to the score."""

    def takes(self, account: NodeAccount) -> bool:
        """Whether a node has the memory and is accepted."""
        if account.memory_free < self.memory_bytes:
            return False
        return self.accepts is None or self.accepts(account)


class Group:
    """Nodes of one class in one state, by free CPU."""

    __slots__ = ("bases", "free", "hopeless", "nodes", "state", "stranded")

    def __init__(self, state: State, free: int) -> None:
        self.state = state
        self.free = free
        self.nodes: list[tuple[int, str, NodeAccount]] = []
        self.bases: dict[_SizeKey, int] = {}
        """Score without CPU by size of pod, where there is room."""
        self.stranded = 0
        """Of the node with the least free CPU: no other here has more slices that lack CPU."""
        self.hopeless: tuple[int, int] | None = None
        """CPU and memory that no node here has together, until another node joins."""

    def pick(self, search: Search) -> Found | None:
        """The node whose CPU suits the pod best, and what that adds; of equals the one with the least CPU.

        The caller has seen that some node has the CPU.
        """
        nodes, cpu, memory = self.nodes, search.cpu_milli, search.memory_bytes
        if self.hopeless is not None and cpu >= self.hopeless[0] and memory >= self.hopeless[1]:
            return None
        first = bisect_left(nodes, (cpu,))
        if len(nodes) - first > _MANY:
            turns = self._turning_points(search, first)
            if all(search.takes(nodes[at][2]) for at in turns):
                return self._best_of(turns, search)
        found = self._best_of(range(first, len(nodes)), search)
        if found is None and search.accepts is None:
            self.hopeless = (cpu, memory)
        return found

    def _best_of(self, positions: Iterable[int], search: Search) -> Found | None:
        """The best of the nodes at some positions, which ascend, that the pod can take."""
        best: Found | None = None
        seen, most = None, min(search.most_gained, self.stranded)
        for position in positions:
            cpu_free, _, account = self.nodes[position]
            if cpu_free != seen and search.takes(account):
                seen, score = cpu_free, taken_up(self.free, cpu_free, search.gains)
                if best is None or score > best[0]:
                    best = score, account
                    # Those that follow have more CPU, and so no more stranded slices to take up.
                    if score >= most:
                        break
        return best

    def _turning_points(self, search: Search, first: int) -> list[int]:
        """Positions of the nodes with enough CPU between which it counts in proportion: one is the best."""
        last = len(self.nodes) - 1
        found = {first, last}
        for cpu_free in turning_points(self.free, search.gains):
            position = bisect_left(self.nodes, (cpu_free,), first)
            found.update((max(first, position - 1), min(position, last)))
        return sorted(found)


_Rank = tuple[int, State, Group]
"""A group's score without CPU, negated so that the best sorts first; its state, to tell equals apart."""


class NodeGroups:
    """The groups of one class of nodes, as one mode counts their GPUs, or one stock of their instances."""

    def __init__(self, mode: type[Mode], stock: int | None = None) -> None:
        self._stock = stock
        self._free_slices: Callable[[NodeAccount, int | None], State] = mode.free
        self._base_score: Callable[[Any, Fraction, ShadowPrices], int | None] = mode.score
        self._total: Callable[[Any], int] = sum
        self._groups: dict[State, Group] = {}
        self._seats: dict[str, tuple[Group, int, str]] = {}
        """By name of the node its group, and the free CPU and the rank that it had when it came."""
        self._occupied = 0
        self._slice_cost = 0
        self._prices: ShadowPrices | None = None
        self._sizes: dict[_SizeKey, Fraction] = {}
        self._rankings: dict[_SizeKey, list[_Rank]] = {}
        self._short_of_cpu: dict[State, Group] = {}
        self.tops: dict[PricedKey, int] = {}
        """Best score without CPU by size of pod, since a group was last filled first or emptied."""

    def __len__(self) -> int:
        return len(self._groups)

    def set_slice_cost(self, cost: int) -> None:
        """Let every slice taken here lower the score by so much."""
        self._slice_cost = cost
        self._prices = None
        self.tops.clear()

    def free(self) -> int:
        """Free slices of all nodes here."""
        return sum([group.free * len(group.nodes) for group in self._groups.values()])

    def idle(self, slices_per_gpu: int) -> Counter[int]:
        """Nodes here by how many idle GPUs they have."""
        nodes: Counter[int] = Counter()
        for state, group in self._groups.items():
            nodes[state.count(slices_per_gpu)] += len(group.nodes)
        return nodes

    def states(self) -> Iterator[tuple[Any, list[NodeAccount]]]:
        """Give each state of nodes here, and the nodes in it."""
        return ((state, [each[2] for each in group.nodes]) for state, group in self._groups.items())

    def seat(self, account: NodeAccount) -> None:
        """Put a node where it belongs now, whether it was here before or not; `remove` takes it away."""
        name, cpu_free, state = account.name, account.cpu_free, self._free_slices(account, self._stock)
        if name in self._seats:
            self.remove(name)
        group = self._groups.get(state) or self._new_group(state)
        rank = account.rank
        self._seats[name] = group, cpu_free, rank
        position = bisect_left(group.nodes, (cpu_free, rank))
        group.nodes.insert(position, (cpu_free, rank, account))
        group.hopeless = None
        if position == 0:
            if len(group.nodes) == 1:
                self._occupied += 1
                self.tops.clear()
            self._note_cpu(group)

    def remove(self, name: str) -> None:
        """Let a node go; the inverse of `seat`."""
        group, cpu_free, rank = self._seats.pop(name)
        position = bisect_left(group.nodes, (cpu_free, rank))
        del group.nodes[position]
        if position == 0:
            self._note_cpu(group)
        if not group.nodes:
            self._occupied -= 1
            self.tops.clear()
            if len(self._groups) > self._occupied + _EMPTY_GROUPS_KEPT:
                self._forget_empty_groups()

    def best(self, search: Search, found: Found | None) -> Found | None:
        """The best node here if it is better than the one found elsewhere, else that one."""
        cpu, gained, key = search.cpu_milli, search.most_gained, search.key
        ranking = self._rankings.get(key) if search.prices is self._prices else None
        if ranking is None:
            ranking = self._ranked(search)
        top = self.tops.get(search.priced_key)
        if top is None:
            top = self.tops[search.priced_key] = _top(ranking)
        if found is not None and top + gained < found[0]:
            return found
        for negative, _, group in ranking:
            if found is not None and -negative <= found[0]:
                break
            if group.nodes and not group.stranded and group.nodes[-1][0] >= cpu:
                found = _better(group, -negative, search, found)
        for group in self._short_of_cpu.values():
            base = group.bases.get(key)
            if base is None or group.nodes[-1][0] < cpu:
                continue
            if found is None or base + min(gained, group.stranded) >= found[0]:
                found = _better(group, base, search, found)
        return found

    def _ranked(self, search: Search) -> list[_Rank]:
        if search.prices is not self._prices or len(self._rankings) >= MAX_SIZES:
            self._start_anew(search.prices)
        self._sizes[search.key] = search.size
        ranked = [
            self._rank(group, search.key, search.size, search.prices) for group in self._groups.values()
        ]
        ranking = self._rankings[search.key] = sorted(rank for rank in ranked if rank is not None)
        return ranking

    def _rank(self, group: Group, key: _SizeKey, size: Fraction, prices: ShadowPrices) -> _Rank | None:
        base = self._base_score(group.state, size, prices)
        if base is None:
            return None
        base -= size.slices * self._slice_cost
        group.bases[key] = base
        return -base, group.state, group

    def _start_anew(self, prices: ShadowPrices) -> None:
        self._prices = prices
        self._rankings.clear()
        self._sizes.clear()
        self.tops.clear()
        self._forget_empty_groups()
        for group in self._groups.values():
            group.bases.clear()
            self._note_cpu(group)

    def _new_group(self, state: State) -> Group:
        group = self._groups[state] = Group(state, self._total(state))
        if self._prices is not None:
            for key, ranking in self._rankings.items():
                rank = self._rank(group, key, self._sizes[key], self._prices)
                if rank is not None:
                    insort(ranking, rank)
        return group

    def _note_cpu(self, group: Group) -> None:
        """Note what the node with the least CPU of a group has stranded."""
        nodes, prices = group.nodes, self._prices
        lacking = stranded(group.free, nodes[0][0], prices) if nodes and prices is not None else 0
        if lacking and not group.stranded:
            self._short_of_cpu[group.state] = group
        elif group.stranded and not lacking:
            del self._short_of_cpu[group.state]
        group.stranded = lacking

    def _forget_empty_groups(self) -> None:
        self._groups = {state: group for state, group in self._groups.items() if group.nodes}
        for ranking in self._rankings.values():
            ranking[:] = [ranked for ranked in ranking if ranked[2].nodes]


class CardGroups(NodeGroups):
    """The groups of one class of odd nodes for pods that take only some of their GPUs."""

    def __init__(self, mode: type[Mode], chosen: CardSet) -> None:
        super().__init__(mode)
        self._free_slices = lambda account, _: among(account, chosen)
        self._base_score = lambda state, size, prices: score_among(state[0], state[1], size, prices)
        self._total = lambda state: sum(state[0]) + sum(state[1])


def _top(ranking: list[_Rank]) -> int:
    for negative, _, group in ranking:
        if group.nodes:
            return -negative
    return _NO_ROOM


def _size_key(fraction: Fraction) -> _SizeKey:
    if fraction.is_apart:
        return (0, *sorted(fraction.split, reverse=True))
    return fraction.slices if fraction.parts == 1 else (fraction.slices, fraction.parts)


def _better(group: Group, base: int, search: Search, found: Found | None) -> Found | None:
    picked = group.pick(search)
    if picked is None:
        return found
    score, account = base + picked[0], picked[1]
    if found is None or score > found[0] or (score == found[0] and account.rank < found[1].rank):
        return score, account
    return found
