"""Classes of nodes that offer the same, and in them groups of nodes whose GPUs are in the same state.

A decision compares groups instead of nodes: the part of a score that depends only on GPUs is computed once
for each group and size of pod. CPU can only raise it if slices of the group are unusable for lack of CPU.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from operator import itemgetter

from kube.names import GPU_PRODUCT_LABEL
from kube.scheduling import Taint
from ledger.accounts import NodeAccount, has_room
from ledger.placement.cards import best_set, card_sets, demand, layout
from ledger.placement.label_index import NodeSet
from ledger.placement.prices import (
    Gains,
    Prices,
    base_score,
    enough_cpu,
    gains,
    most_gained,
    taken_up,
    unusable_slices,
)
from ledger.placement_request import PlacementRequest
from modes.facts import NodeFact
from modes.registry import MODES
from modes.units import POOL, Unit

ZONE_LABEL = "topology.kubernetes.io/zone"
State = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Free slices of each GPU (sorted, unless cards differ), of each card of the pool, free MIG instances."""
Found = tuple[int, NodeAccount]
"""A score, and the node that has it."""
PriceKey = tuple[int, int, int | None, int, str | None, str | None, tuple[Taint, ...]]
"""What pods distinguish nodes by: GPUs, slices and MiB of each, steps of CPU, model, zone, taints."""
_CPU_STEP, _MAX_CPU_STEPS = 16_000, 64
"""Milli-CPU per step by which nodes are distinguished, and the number of distinguished steps."""
_REFUSING = tuple(key for mode in MODES.values() for key in mode.refusing_labels)
_MAX_EMPTY = 128
"""Groups without nodes that are kept beside two for each node: nodes come back to the same states."""
_MAX_SIZES = 512
"""Pod sizes whose scores are remembered: users can request any number of them."""


class Search:
    """The amounts that one pod takes, in the form in which nodes are compared."""

    def __init__(self, request: PlacementRequest, accepts: Callable[[NodeAccount], bool] | None) -> None:
        """`accepts` tells whether a node may be taken; None accepts all."""
        share, fraction = request.share, request.share.fraction
        self.share, self.fraction, self.unit = share, fraction, share.resource_unit
        self.takes_gpus = share.mode_type.chooses_gpus
        self.demand = demand(request)
        self.size: Hashable = fraction.shape if self.takes_gpus else (fraction.pieces, self.unit)
        """Everything that a score without CPU depends on, except the node and the accepted cards."""
        self.cpu_milli = share.cpu_milli
        self._accepts = accepts

    def takes(self, account: NodeAccount) -> bool:
        """Whether a node has enough memory and other resources, and is accepted."""
        has_beside = account.has_beside(self.share.memory_bytes, self.share.extended)
        return has_beside and (self._accepts is None or self._accepts(account))


class Group:
    """Nodes of one class in one state, sorted by free CPU."""

    __slots__ = ("free", "nodes", "state", "unusable")

    def __init__(self, state: State) -> None:
        self.state = state
        self.free = sum(state[0])
        self.nodes: list[tuple[int, str, NodeAccount]] = []
        self.unusable: int | None = None
        """Unusable slices of the node with the least free CPU; the others have no more. None: not counted."""

    def best(self, search: Search, base: int, pod: Gains) -> Found | None:
        """Return the node whose CPU suits the pod best, and its score; the least CPU wins a tie."""
        nodes, found = self.nodes, None
        first = bisect_left(nodes, (search.cpu_milli,))
        enough = [bisect_left(nodes, (cpu,), first) for cpu in enough_cpu(self.free, pod)]
        for start in sorted({first, *[min(at, len(nodes) - 1) for at in enough]}):
            account = next((each[2] for each in islice(nodes, start, None) if search.takes(each[2])), None)
            if account is None:
                break
            score = base + taken_up(self.free, account.cpu_free, pod)
            if found is None or score > found[0]:
                found = score, account
        return found


class NodeClass:
    """Nodes that offer the same, with the same taints, model and zone."""

    def __init__(self, sample: NodeFact, prices: Prices) -> None:
        self.sample = sample
        """One of the nodes, or a former one: they differ in names, other labels, CPU and memory."""
        self.order = repr(class_key(sample))
        """Sorts classes independently of the order in which their nodes came."""
        self.price_key = price_key(sample)
        self.nodes: NodeSet = 0
        """The members."""
        self.prices = prices
        """Worth of free slices here (expected_pods.py)."""
        self.layout = layout(sample)
        offered = [unit for mode in MODES.values() for unit in mode.resource_units(sample)]
        self._units: list[Unit] = [unit for unit in offered if unit is not POOL]
        self._groups: dict[State, Group] = {}
        self._ranked: dict[Hashable, tuple[int, list[tuple[int, Group]]]] = {}
        """By size of pod: how many groups were scored, and those with room by their score without CPU."""
        self._positions: dict[str, tuple[Group, int]] = {}
        """By name of the node: its group, and its free CPU at insertion."""

    def set_prices(self, prices: Prices) -> None:
        """Set what free slices are worth here."""
        self.prices = prices
        self._ranked.clear()
        self._groups = {state: group for state, group in self._groups.items() if group.nodes}
        for group in self._groups.values():
            group.unusable = None

    def states(self) -> Iterator[tuple[State, list[NodeAccount]]]:
        """Yield each state that some node is in, and these nodes."""
        return (
            (each.state, [node[2] for node in each.nodes]) for each in self._groups.values() if each.nodes
        )

    def insert(self, account: NodeAccount) -> None:
        """Insert a node, or move it to the group of its current state; the inverse of `remove`."""
        self.remove(account.name)
        state = self._state(account)
        group = self._groups.get(state)
        if group is None:
            if len(self._groups) > _MAX_EMPTY + 2 * len(self._positions):
                self.set_prices(self.prices)
            group = self._groups[state] = Group(state)
        self._positions[account.name] = group, account.cpu_free
        insort(group.nodes, (account.cpu_free, account.name, account))
        group.unusable = None

    def remove(self, name: str) -> None:
        """Remove a node, if it is here; the inverse of `insert`."""
        if name not in self._positions:
            return
        group, cpu_free = self._positions.pop(name)
        del group.nodes[bisect_left(group.nodes, (cpu_free, name))]
        group.unusable = None

    def best(self, search: Search, found: Found | None) -> Found | None:
        """Return the best node here, if it is better than `found`; otherwise `found`."""
        pod, cpu_milli = self._gains(search), search.cpu_milli
        most = most_gained(pod)
        for base, group in self._with_room(search):
            if found is not None and base + most < found[0]:
                break
            if not group.nodes or group.nodes[-1][0] < cpu_milli:
                continue
            if group.unusable is None:
                group.unusable = unusable_slices(group.free, group.nodes[0][0], self.prices.cpu)
            if found is None or base + min(most, group.unusable) >= found[0]:
                found = _better(found, group.best(search, base, pod))
        return found

    def _with_room(self, search: Search) -> list[tuple[int, Group]]:
        """Return the groups with room and their scores without CPU, the best first; some may be empty."""
        size = search.size if self.layout is None else (search.size, search.demand)
        scored, ranked = self._ranked.get(size, (0, []))
        if scored < len(self._groups):
            if len(self._ranked) >= _MAX_SIZES:
                self._ranked.clear()
            for group in islice(self._groups.values(), scored, None):
                if (base := self._base(group.state, search)) is not None:
                    ranked.append((base, group))
            ranked.sort(key=itemgetter(0), reverse=True)
            self._ranked[size] = len(self._groups), ranked
        return ranked

    def score(self, account: NodeAccount, search: Search) -> int | None:
        """Return the score of one node; None if it has no room now."""
        if account.cpu_free < search.cpu_milli or not search.takes(account):
            return None
        state = self._state(account)
        base = self._base(state, search)
        if base is None:
            return None
        return base + taken_up(sum(state[0]), account.cpu_free, self._gains(search))

    def _gains(self, search: Search) -> Gains:
        if not search.takes_gpus:
            return ()
        return gains(search.fraction.slices, search.cpu_milli, self.prices.cpu)

    def _state(self, account: NodeAccount) -> State:
        sample = self.sample
        by_index = tuple([max(0, each) for each in account.left.values()])
        # Which cards are free matters only where cards differ.
        gpus = tuple(sorted(by_index)) if self.layout is None else by_index
        pool = account.pool_state() if sample.pooled else ()
        return gpus, pool, tuple([account.free_of(unit) for unit in self._units]) if self._units else ()

    def _base(self, state: State, search: Search) -> int | None:
        gpus, pool, instances = state
        if not search.takes_gpus:
            free = pool if search.unit is POOL else (instances[self._units.index(search.unit)],)
            # The node with the least room that suffices.
            return -sum(free) if has_room(free, search.fraction) else None
        sets = card_sets(self.sample, search.demand) if self.layout is not None else None
        if sets is None:
            return base_score(gpus, search.fraction, self.prices)
        numbers = [index for index, _ in self.sample.gpus if index not in self.sample.cordoned]
        found = best_set(dict(zip(numbers, gpus, strict=True)), sets, search.fraction, self.prices)
        return found[0] if found is not None else None


def class_key(node: NodeFact) -> Hashable:
    """Return everything that nodes of a class have in common."""
    offered = node.usable, node.agent, node.gpus, node.pooled, node.instances
    counts = tuple([mode.gpu_count(node) for mode in MODES.values()])
    pool = (node.pool, *[node.labels.get(key) or "" for key in _REFUSING]) if node.pool or node.pooled else ()
    other = tuple(sorted(node.cordoned)), tuple(sorted(node.extended))
    return offered, counts, pool, other, layout(node), price_key(node)


def price_key(node: NodeFact) -> PriceKey:
    """Return what pods distinguish a node by."""
    labels = node.labels
    model, zone = labels.get(GPU_PRODUCT_LABEL), labels.get(ZONE_LABEL)
    steps = cpu_steps(node.cpu_milli)
    return len(node.gpus), node.slices_per_gpu, node.gpu_mib, steps, model, zone, node.taints


def cpu_steps(cpu_milli: int) -> int:
    """CPU in whole steps."""
    return min(cpu_milli // _CPU_STEP, _MAX_CPU_STEPS)


def _better(found: Found | None, other: Found | None) -> Found | None:
    """Return the better one; of equally good ones the first by name."""
    if found is None or other is None:
        return found or other
    is_better = other[0] > found[0] or (other[0] == found[0] and other[1].name < found[1].name)
    return other if is_better else found
