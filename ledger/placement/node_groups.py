"""Groups nodes by the state of their GPUs, so that a decision compares states instead of nodes.

For a pod, nodes of one class whose GPUs have the same free slices differ only in CPU and memory. A group
sorts them by free CPU. For each size of pod, the groups of a class are ranked by the part of the score that
depends only on GPUs. CPU can raise a score only if slices are unusable for lack of CPU, and only by those
that the pod uses up. So a walk down the ranking ends early, and only few groups with unusable slices are
examined.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ledger.accounts import NodeAccount
from ledger.placement.cards import CardSet, among
from ledger.placement.counting import counting
from ledger.placement.cpu_score import gains, most_gained, taken_up, turning_points, unusable_slices
from ledger.placement.packing import score_on_gpus
from ledger.placement.shadow_prices import ShadowPrices
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction
from modes.mode import Mode
from modes.units import POOL, Unit

State = tuple[int, ...] | tuple[tuple[int, ...], tuple[int, ...]]
"""Sorted free slices of a node's GPUs; on an odd node, those of GPUs that the pod accepts, and of the
others."""
Found = tuple[int, NodeAccount]
"""A score, and the node that has it."""
_EMPTY_GROUPS_KEPT = 128
_MANY = 16
"""In groups of more nodes than this, not every node is examined."""
MAX_SIZES = 512
"""Pod sizes for which groups are ranked; beyond it, all rankings are dropped."""
MOST, LEAST = 2**256, -(2**256)
"""Bounds of all scores."""
_NO_ROOM = 2 * LEAST
_SizeKey = int | tuple[int, ...]
"""Identifies a size within a class. An integer: slices of a pod. A tuple: slices and GPUs of a pod on several
GPUs, or 0 and the slices of each container, the largest first, if containers use different GPUs."""
PricedKey = tuple[ShadowPrices, _SizeKey]
"""Everything except nodes that a score without CPU depends on."""


class Search:
    """The search for the best node for one pod."""

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
        """Whether a node may be taken; None accepts all."""
        share = request.share
        self.size = share.fraction
        self.key = _size_key(share.fraction)
        self.priced_key: PricedKey = prices, self.key
        self.cpu_milli = share.cpu_milli
        self.memory_bytes = share.memory_bytes
        self.gains = gains(share.fraction.slices, share.cpu_milli, prices)
        self.most_gained = most_gained(self.gains)
        """Maximum that CPU can add to a score."""

    def takes(self, account: NodeAccount) -> bool:
        """Whether a node has enough memory and is accepted."""
        if account.memory_free < self.memory_bytes:
            return False
        return self.accepts is None or self.accepts(account)


class Group:
    """Nodes of one class in one state, sorted by free CPU."""

    __slots__ = ("bases", "free", "infeasible", "nodes", "state", "unusable_slices")

    def __init__(self, state: State, free: int) -> None:
        self.state = state
        self.free = free
        self.nodes: list[tuple[int, str, NodeAccount]] = []
        self.bases: dict[_SizeKey, int] = {}
        """Score without CPU by size of pod; sizes without room are missing."""
        self.unusable_slices = 0
        """Unusable slices of the node with the least free CPU; the other nodes have no more."""
        self.infeasible: tuple[int, int] | None = None
        """CPU and memory that no node here has together; None when a node joins."""

    def pick(self, search: Search) -> Found | None:
        """The node whose CPU suits the pod best, and the CPU score; the least CPU wins a tie.

        Call it only if some node has enough CPU.
        """
        nodes, cpu, memory = self.nodes, search.cpu_milli, search.memory_bytes
        if self.infeasible is not None and cpu >= self.infeasible[0] and memory >= self.infeasible[1]:
            return None
        first = bisect_left(nodes, (cpu,))
        if len(nodes) - first > _MANY:
            turns = self._turning_points(search, first)
            if all(search.takes(nodes[at][2]) for at in turns):
                return self._best_of(turns, search)
        found = self._best_of(range(first, len(nodes)), search)
        if found is None and search.accepts is None:
            self.infeasible = (cpu, memory)
        return found

    def _best_of(self, positions: Iterable[int], search: Search) -> Found | None:
        """The best node at these ascending positions that can take the pod."""
        best: Found | None = None
        seen, most = None, min(search.most_gained, self.unusable_slices)
        for position in positions:
            cpu_free, _, account = self.nodes[position]
            if cpu_free != seen and search.takes(account):
                seen, score = cpu_free, taken_up(self.free, cpu_free, search.gains)
                if best is None or score > best[0]:
                    best = score, account
                    # Later nodes have more CPU, and so no more unusable slices to use up.
                    if score >= most:
                        break
        return best

    def _turning_points(self, search: Search, first: int) -> list[int]:
        """Positions between which the score is linear in free CPU, so that one of them is the best."""
        last = len(self.nodes) - 1
        found = {first, last}
        for cpu_free in turning_points(self.free, search.gains):
            position = bisect_left(self.nodes, (cpu_free,), first)
            found.update((max(first, position - 1), min(position, last)))
        return sorted(found)


_Rank = tuple[int, State, Group]
"""A group's score without CPU, negated so that the best sorts first; its state, for a stable order; the
group."""


class NodeGroups:
    """The groups of one class of nodes, as one mode counts their GPUs, or one profile of MIG instances."""

    def __init__(self, mode: type[Mode], resource_unit: Unit = POOL) -> None:
        self._resource_unit = resource_unit
        self._free_slices: Callable[[NodeAccount, Unit], State] = counting(mode).free
        self._base_score: Callable[[Any, Fraction, ShadowPrices], int | None] = counting(mode).score
        self._total: Callable[[Any], int] = sum
        self._groups: dict[State, Group] = {}
        self._positions: dict[str, tuple[Group, int]] = {}
        """By name of the node: its group, and its free CPU at insertion."""
        self._occupied = 0
        self._slice_cost = 0
        self._worth: ShadowPrices | None = None
        """What free slices are worth here; None: what the search says."""
        self._prices: ShadowPrices | None = None
        self._sizes: dict[_SizeKey, Fraction] = {}
        self._rankings: dict[_SizeKey, list[_Rank]] = {}
        self._short_of_cpu: dict[State, Group] = {}
        self.tops: dict[PricedKey, int] = {}
        """Best score without CPU by size of pod; cleared when a group becomes empty or is no longer empty."""

    def __len__(self) -> int:
        return len(self._groups)

    def set_worth(self, worth: ShadowPrices | None, slice_cost: int) -> None:
        """Set what free slices are worth here, and the cost that every slice subtracts from the score."""
        self._worth = worth
        self._slice_cost = slice_cost
        self._prices = None
        self.tops.clear()

    def states(self) -> Iterator[tuple[Any, list[NodeAccount]]]:
        """Yield each state, and the nodes in it."""
        return ((state, [each[2] for each in group.nodes]) for state, group in self._groups.items())

    def counts(self) -> Iterator[tuple[Any, int]]:
        """Yield each state that some node is in, and the number of these nodes."""
        return ((state, len(group.nodes)) for state, group in self._groups.items() if group.nodes)

    def insert(self, account: NodeAccount) -> None:
        """Insert a node, or move it to the group of its current state; the inverse of `remove`."""
        name, cpu_free, state = (
            account.name,
            account.cpu_free,
            self._free_slices(account, self._resource_unit),
        )
        if name in self._positions:
            self.remove(name)
        group = self._groups.get(state) or self._new_group(state)
        self._positions[name] = group, cpu_free
        position = bisect_left(group.nodes, (cpu_free, name))
        group.nodes.insert(position, (cpu_free, name, account))
        group.infeasible = None
        if position == 0:
            if len(group.nodes) == 1:
                self._occupied += 1
                self.tops.clear()
            self._note_cpu(group)

    def remove(self, name: str) -> None:
        """Remove a node; the inverse of `insert`."""
        group, cpu_free = self._positions.pop(name)
        position = bisect_left(group.nodes, (cpu_free, name))
        del group.nodes[position]
        if position == 0:
            self._note_cpu(group)
        if not group.nodes:
            self._occupied -= 1
            self.tops.clear()
            if len(self._groups) > self._occupied + _EMPTY_GROUPS_KEPT:
                self._forget_empty_groups()

    def best(self, search: Search, found: Found | None) -> Found | None:
        """The best node here, if it is better than `found`; otherwise `found`."""
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
            if group.nodes and not group.unusable_slices and group.nodes[-1][0] >= cpu:
                found = _better(group, -negative, search, found)
        for group in self._short_of_cpu.values():
            base = group.bases.get(key)
            if base is None or group.nodes[-1][0] < cpu:
                continue
            if found is None or base + min(gained, group.unusable_slices) >= found[0]:
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
        base = self._base_score(group.state, size, self._worth or prices)
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
        """Record the unusable slices of the node with the least CPU in a group."""
        nodes, prices = group.nodes, self._prices
        lacking = unusable_slices(group.free, nodes[0][0], prices) if nodes and prices is not None else 0
        if lacking and not group.unusable_slices:
            self._short_of_cpu[group.state] = group
        elif group.unusable_slices and not lacking:
            del self._short_of_cpu[group.state]
        group.unusable_slices = lacking

    def _forget_empty_groups(self) -> None:
        self._groups = {state: group for state, group in self._groups.items() if group.nodes}
        for ranking in self._rankings.values():
            ranking[:] = [ranked for ranked in ranking if ranked[2].nodes]


class CardGroups(NodeGroups):
    """The groups of one class of odd nodes, for pods that accept only some of their GPUs."""

    def __init__(self, mode: type[Mode], chosen: CardSet) -> None:
        super().__init__(mode)
        self._free_slices = lambda account, _: among(account, chosen)
        self._base_score = lambda state, size, prices: score_on_gpus(state[0], size, prices, state[1])
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
    if found is None or score > found[0] or (score == found[0] and account.name < found[1].name):
        return score, account
    return found
