"""Nodes grouped by the state of their GPUs, so that a decision looks at states and not at nodes.

Nodes of one class whose GPUs have the same free slices differ for a pod only in CPU and memory. A group keeps
them by free CPU; the groups of a class are ranked, for each size of pod, by the part of the score that GPUs
alone decide. CPU can only lower that score for a pod with more CPU than most, and can raise it for a pod with
less only on nodes that are short of CPU; so walking a ranking down from its top ends early.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from itertools import chain

from ledger.accounts import NodeAccount
from ledger.placement.cpu_score import cpu_score
from ledger.placement.request_history import ShadowPrices
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction
from modes.mode import Mode
from modes.packing import UNIT

State = tuple[int, ...]
"""Free slices of a node's GPUs, sorted."""
Found = tuple[int, NodeAccount]
"""A score and the node that has it."""
_EMPTY_GROUPS_KEPT = 128
MAX_SIZES = 512
"""Sizes of pods that groups are ranked for; then all are ranked again as they come."""
_SizeKey = int | tuple[int, ...]
"""Slices of a pod; with its GPUs where it asks a part of several; of each container, the largest first, where
these go to different GPUs. Tells sizes apart in one class."""


class Search:
    """One pod looking for its best node."""

    __slots__ = ("accepts", "cpu_milli", "key", "memory_bytes", "most_gained", "prices", "size", "slices")

    def __init__(
        self, request: PlacementRequest, prices: ShadowPrices, accepts: Callable[[NodeAccount], bool] | None
    ) -> None:
        self.prices = prices
        self.accepts = accepts
        """Asked of each node before it is taken; None takes all."""
        self.size = request.fraction
        self.slices = request.fraction.slices
        self.key = _size_key(request.fraction)
        self.cpu_milli = request.cpu_milli
        self.memory_bytes = request.memory_bytes
        self.most_gained = request.fraction.slices * UNIT - request.cpu_milli * prices.cpu
        """What a node short of CPU may add to the score; above zero for a pod with less CPU than most."""


class Group:
    """Nodes of one class in one state, by free CPU."""

    __slots__ = ("bases", "free", "hopeless", "is_short", "nodes", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.free = sum(state)
        self.nodes: list[tuple[int, str, NodeAccount]] = []
        self.bases: dict[_SizeKey, int] = {}
        """Score without CPU by size of pod, where there is room."""
        self.is_short = False
        """Whether the node with the least free CPU has slices that lack CPU."""
        self.hopeless: tuple[int, int] | None = None
        """CPU and memory that no node here has together, until another node joins."""

    def pick(self, search: Search) -> NodeAccount | None:
        """The node whose CPU suits the pod best, of those with room for it; of equals that with the least.

        The caller has seen that some node has the CPU.
        """
        cpu, memory, accepts = search.cpu_milli, search.memory_bytes, search.accepts
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
        spared = self.free - search.slices
        unstranded = search.cpu_milli - (-spared * UNIT // search.prices.cpu)
        best = bisect_left(self.nodes, (unstranded,), first)
        if best == first:
            return range(first, len(self.nodes))
        return chain(range(best, len(self.nodes)), range(best - 1, first - 1, -1))


_Rank = tuple[int, State, Group]
"""A group's score without CPU, negated so that the best sorts first; its state, to tell equals apart."""


class NodeGroups:
    """The groups of one class of nodes, as one mode counts their GPUs, or one stock of their instances."""

    def __init__(self, mode: type[Mode], stock: int | None = None) -> None:
        self._stock = stock
        self._free_slices = mode.free
        self._base_score = mode.score
        self._groups: dict[State, Group] = {}
        self._seats: dict[str, tuple[Group, int]] = {}
        """By name of the node its group, and the free CPU that it had when it came."""
        self._occupied = 0
        self._slice_cost = 0
        self._prices: ShadowPrices | None = None
        self._sizes: dict[_SizeKey, Fraction] = {}
        self._rankings: dict[_SizeKey, list[_Rank]] = {}
        self._short_of_cpu: dict[State, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def set_slice_cost(self, cost: int) -> None:
        """Let every slice taken here lower the score by so much."""
        self._slice_cost = cost
        self._prices = None

    def free(self) -> int:
        """Free slices of all nodes here."""
        return sum([group.free * len(group.nodes) for group in self._groups.values()])

    def seat(self, account: NodeAccount) -> None:
        """Put a node where it belongs now, whether it was here before or not; `remove` takes it away."""
        name, cpu_free, state = account.name, account.cpu_free, self._free_slices(account, self._stock)
        if name in self._seats:
            self.remove(name)
        group = self._groups.get(state) or self._new_group(state)
        self._seats[name] = group, cpu_free
        position = bisect_left(group.nodes, (cpu_free, name))
        group.nodes.insert(position, (cpu_free, name, account))
        group.hopeless = None
        if position == 0:
            if len(group.nodes) == 1:
                self._occupied += 1
            self._note_cpu(group)

    def remove(self, name: str) -> None:
        """Let a node go; the inverse of `seat`."""
        group, cpu_free = self._seats.pop(name)
        position = bisect_left(group.nodes, (cpu_free, name))
        del group.nodes[position]
        if position == 0:
            self._note_cpu(group)
        if not group.nodes:
            self._occupied -= 1
            if len(self._groups) > self._occupied + _EMPTY_GROUPS_KEPT:
                self._forget_empty_groups()

    def best(self, search: Search, found: Found | None) -> Found | None:
        """The best node here if it is better than the one found elsewhere, else that one."""
        cpu = search.cpu_milli
        ranking = self._rankings.get(search.key) if search.prices is self._prices else None
        for negative, _, group in self._ranked(search) if ranking is None else ranking:
            if found is not None and -negative <= found[0]:
                break
            if group.nodes and group.nodes[-1][0] >= cpu:
                found = _better(group, -negative, search, found)
        if search.most_gained > 0:
            for group in self._short_of_cpu.values():
                base = group.bases.get(search.key)
                if base is None or group.nodes[-1][0] < cpu:
                    continue
                if found is None or base + search.most_gained >= found[0]:
                    found = _better(group, base, search, found)
        return found

    def _ranked(self, search: Search) -> list[_Rank]:
        if search.prices is not self._prices or len(self._rankings) >= MAX_SIZES:
            self._start_anew(search.prices)
        self._sizes[search.key] = search.size
        ranked = [self._rank(group, search.size, search.prices) for group in self._groups.values()]
        ranking = self._rankings[search.key] = sorted(rank for rank in ranked if rank is not None)
        return ranking

    def _rank(self, group: Group, size: Fraction, prices: ShadowPrices) -> _Rank | None:
        base = self._base_score(group.state, size, prices)
        if base is None:
            return None
        base -= size.slices * self._slice_cost
        group.bases[_size_key(size)] = base
        return -base, group.state, group

    def _start_anew(self, prices: ShadowPrices) -> None:
        self._prices = prices
        self._rankings.clear()
        self._sizes.clear()
        self._forget_empty_groups()
        for group in self._groups.values():
            group.bases.clear()
            self._note_cpu(group)

    def _new_group(self, state: State) -> Group:
        group = self._groups[state] = Group(state)
        if self._prices is not None:
            for key, ranking in self._rankings.items():
                rank = self._rank(group, self._sizes[key], self._prices)
                if rank is not None:
                    insort(ranking, rank)
        return group

    def _note_cpu(self, group: Group) -> None:
        """Note whether the group is short of CPU now."""
        nodes, prices = group.nodes, self._prices
        is_short = bool(nodes) and prices is not None and nodes[0][0] * prices.cpu < group.free * UNIT
        if is_short == group.is_short:
            return
        group.is_short = is_short
        if is_short:
            self._short_of_cpu[group.state] = group
        else:
            del self._short_of_cpu[group.state]

    def _forget_empty_groups(self) -> None:
        self._groups = {state: group for state, group in self._groups.items() if group.nodes}
        for ranking in self._rankings.values():
            ranking[:] = [ranked for ranked in ranking if ranked[2].nodes]


def _size_key(fraction: Fraction) -> _SizeKey:
    if fraction.is_apart:
        return (0, *sorted(fraction.split, reverse=True))
    return fraction.slices if fraction.parts == 1 else (fraction.slices, fraction.parts)


def _better(group: Group, base: int, search: Search, found: Found | None) -> Found | None:
    account = group.pick(search)
    if account is None:
        return found
    cpu = cpu_score(group.free, account.cpu_free, search.slices, search.cpu_milli, search.prices)
    score = base + cpu
    if found is None or score > found[0] or (score == found[0] and account.name < found[1].name):
        return score, account
    return found
