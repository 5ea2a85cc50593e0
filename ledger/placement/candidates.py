"""Finds the nodes that a pod could ever run on, and remembers them for pods with equal demands."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from kube.matching import TolerationIndex
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from kube.scheduling import Constraints, Taint, without_label
from ledger.accounts import NodeAccount, PricedClass
from ledger.placement.cards import CardDemand, card_sets, demand
from ledger.placement.expected_pod import ExpectedPod
from ledger.placement.feasibility import (
    Obstacle,
    agent_serves,
    gpu_obstacle,
    obstacle,
    takes_now,
    why_unschedulable,
)
from ledger.placement.gpu_kind_filter import by_labels, models_of
from ledger.placement.label_index import NodeSet, union
from ledger.placement.memory_values import MemoryValues
from ledger.placement.node_class import NodeClass
from ledger.placement.node_groups import NodeGroups, Search
from ledger.placement.node_index import NodeIndex
from ledger.placement.pick_index import Kinds, kinds
from ledger.placement.shadow_prices import ShadowPrices, Size
from ledger.placement.shape_capacity import ShapeCapacity
from ledger.placement.work import Work
from ledger.placement_request import PlacementRequest, Unschedulable
from modes.facts import NodeFact
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from modes.mode import Mode
from modes.units import Gpu

MAX_BYTES = 2**24
"""Approximate bytes of all remembered selections; beyond it, the least recently used are dropped."""
MAX_BYTES_OF_ONE = 2**16
"""Bytes of constraints that are worth remembering."""
_BYTES_OF_A_SELECTION = 2**13
"""Approximate bytes of a selection without the pod's constraints."""
_MAX_SEARCHES = 8
"""Searches of one selection, for pods that differ in CPU and memory; beyond it, all are dropped."""
_FEW = 64
"""Up to this number, nodes are checked one by one instead of in groups."""


@dataclass(frozen=True)
class Candidates:
    """The nodes that could ever hold a pod: whole classes, or those of their nodes that `accepts` selects."""

    request: PlacementRequest
    """One of the requests with these demands, for its constraints and fraction."""
    keys: frozenset[str]
    """Labels that the pods name."""
    classes: tuple[NodeClass, ...]
    nodes: NodeSet
    accepts: Callable[[NodeAccount], bool] | None = None
    few: tuple[NodeAccount, ...] | None = None
    """The nodes themselves, set instead of `classes` if they are few and parts of classes."""
    expected: dict[tuple[Size, int], ExpectedPod] = field(default_factory=dict)
    """Counters for such pods, by their size and by steps of requested CPU (expected_pods.py)."""

    searches: dict[tuple[ShadowPrices, int, int, tuple[int, ...]], Search] = field(default_factory=dict)
    """By prices, CPU, memory, and slices of each container."""

    @cached_property
    def size(self) -> int:
        """Approximate bytes of this selection."""
        return self.request.demands.constraints.size() + _BYTES_OF_A_SELECTION + self.nodes.bit_length() // 4

    def search(self, request: PlacementRequest, prices: ShadowPrices) -> Search:
        """The search for one of the pods; pods with equal amounts share it."""
        share = request.share
        asked = prices, share.cpu_milli, share.memory_bytes, share.fraction.split
        search = self.searches.get(asked)
        if search is None:
            if len(self.searches) >= _MAX_SEARCHES:
                self.searches.clear()
            search = self.searches[asked] = Search(request, prices, self.accepts)
        return search

    @cached_property
    def mode(self) -> type[Mode]:
        """The class that defines the pods' mode."""
        return self.request.share.mode_type

    @cached_property
    def is_bound_by_memory(self) -> bool:
        """Whether the pods may only go where their share gives the MiB that were written into them."""
        return self.request.share.is_bound_by_memory

    @property
    def is_empty(self) -> bool:
        """Whether no node could ever hold the pod."""
        return not self.nodes

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of GPU that a pod can wait for."""
        return kinds(self._capacities(), self.request)

    @cached_property
    def groups(self) -> tuple[NodeGroups, ...]:
        """Groups of nodes to search for room, as the pods' mode counts GPUs."""
        found: list[NodeGroups] = []
        for each in self.classes:
            if agent_serves(each.sample, self.request):
                sets = card_sets(each.sample, self.demand)
                found += each.groups_of(self.request.share.mode, self.request.share.resource_unit, sets)
        return tuple(found)

    @cached_property
    def demand(self) -> CardDemand | None:
        """The pods' demands on each card."""
        return demand(self.request)

    def samples(self) -> Iterator[tuple[NodeFact, int]]:
        """Yield one node of each kind, and how many nodes offer the same."""
        if self.few is not None:
            yield from [(account.fact, 1) for account in self.few if account.fact is not None]
        for node_class in self.classes:
            yield from node_class.alike_in(self.nodes)

    def members(self) -> Iterator[NodeFact]:
        """Yield each of the nodes."""
        accounts = chain(*[each.members.values() for each in self.classes]) if self.few is None else self.few
        return (each.fact for each in accounts if each.fact is not None and self.holds(each))

    @cached_property
    def _class_set(self) -> frozenset[PricedClass | None]:
        return frozenset(self.classes)

    def holds(self, account: NodeAccount) -> bool:
        """Whether a node is one of them."""
        if self.few is not None:
            return account in self.few
        if account.node_class not in self._class_set:
            return False
        return self.accepts is None or self.accepts(account)

    def _capacities(self) -> Iterable[ShapeCapacity]:
        """The capacities of the nodes that could hold the pod today, or of all if there are none."""
        if self.few is not None or self.accepts is not None:
            found = list(self.samples())
            now = [(node, count) for node, count in found if takes_now(node, self.request)]
            return chain(*[self._parts(node, ShapeCapacity.of(node, count)) for node, count in now or found])
        usable = [c for c in self.classes if c.usable.nodes]
        usable = [c for c in usable if agent_serves(c.sample, self.request)] or usable
        nodes = [(c.sample, c.usable) for c in usable] or [(c.sample, c.unusable) for c in self.classes]
        return chain(*[self._parts(*each) for each in nodes])

    def _parts(self, node: NodeFact, capacity: ShapeCapacity) -> list[ShapeCapacity]:
        """Capacity of the GPUs that the pods may use: all of them, or each set."""
        sets = card_sets(node, self.demand)
        if sets is None:
            return [capacity]
        # A pod that requires a model requires what the labels state, which its cards nearly equal.
        by_label = self.is_bound_by_memory or (self.demand is not None and self.demand.keeps_model)
        return [
            capacity.only(each, (node.gpu_mib if by_label else node.card_mib(tuple(each))) or 0)
            for each in sets
        ]


class CandidateFinder:
    """Selections, which are dropped when the facts of nodes change."""

    def __init__(self, node_index: NodeIndex, values: MemoryValues) -> None:
        self._node_index = node_index
        self._values = values
        self._generation = -1
        self._known: OrderedDict[Hashable, Candidates] = OrderedDict()
        """Least recently used first."""
        self._taken = 0
        """Bytes of all remembered selections."""
        self._latest: tuple[PlacementRequest, Candidates] | None = None
        """The last request: it comes again as soon as its pod is placed and counted."""
        self._matching: tuple[Constraints, NodeSet] | None = None
        """The nodes for the last label demands: a decision tries the same demands with other sizes."""
        self._of_kinds: tuple[GpuKinds, NodeSet] | None = None
        """The nodes for the last kinds of GPU, by the nodes' labels."""
        self.work = Work()
        """The comparisons that are left for the current decision."""

    def begin(self) -> Work:
        """Begin a decision: all selections until the next one are charged to its work."""
        self._node_index.begin()
        self.work.begin(self._node_index.labels.nodes.bit_count())
        return self.work

    def select(self, request: PlacementRequest) -> Candidates:
        """Return the nodes that could ever hold the pod.

        Raises:
            TooMuchWorkError: it takes more comparisons than the decision has left.
        """
        self._refresh()
        if self._latest is not None and self._latest[0] is request:
            return self._latest[1]
        key, candidates = None, self._of_latest(request)
        if candidates is None:
            key = _key(request)
            candidates = self._known.get(key)
        if request.accounting.reservation is not None:
            self._node_index.learn(candidates.keys if candidates else _keys(request))
            if self._generation != self._node_index.generation:
                self._refresh()
                candidates = None
        if candidates is None:
            candidates = self._select(request)
            self._remember(key if key is not None else _key(request), candidates)
        elif key is not None:
            self._known.move_to_end(key)
        self._latest = request, candidates
        return candidates

    def _of_latest(self, request: PlacementRequest) -> Candidates | None:
        """Return the last selection, if the pod differs only in its accounting; most pods come in rows."""
        if self._latest is None:
            return None
        latest, candidates = self._latest
        is_alike = (
            latest.share is request.share
            and latest.demands is request.demands
            and latest.keeps_model is request.keeps_model
        )
        return candidates if is_alike else None

    def matching(self, constraints: Constraints) -> NodeSet:
        """Return the nodes whose names and labels satisfy a pod's demands.

        Raises:
            TooMuchWorkError: it takes more comparisons than the decision has left.
        """
        if self._matching is None or self._matching[0] is not constraints:
            nodes = self._node_index.labels.matching(constraints, self.work)
            if constraints.node_name is not None:
                number = self._node_index.numbers.get(constraints.node_name)
                nodes &= 1 << number if number is not None else 0
            self._matching = constraints, nodes
        return self._matching[1]

    def _matching_class(self, node_class: NodeClass, request: PlacementRequest) -> NodeSet:
        """Return the nodes of a class that satisfy a pod's demands, including kinds of GPU.

        On odd nodes, if the pod can require hosts, only the cards decide on kinds; otherwise the labels do
        too.
        """
        kinds = request.demands.kinds
        nodes = node_class.nodes & self.matching(request.demands.constraints)
        if not nodes or kinds == EVERY_KIND or self._asks_cards(node_class, request):
            return nodes
        if self._of_kinds is None or self._of_kinds[0] is not kinds:
            asked = by_labels(kinds, models_of(kinds, self._values.labels()))
            self._of_kinds = kinds, self._node_index.labels.matching(asked, self.work)
        return nodes & self._of_kinds[1]

    @staticmethod
    def _asks_cards(node_class: NodeClass, request: PlacementRequest) -> bool:
        # A pod can require hosts instead of labels only if we choose its GPU.
        can_name_hosts = request.share.mode_type.takes is Gpu and node_class.is_odd
        # The MiB that are written into a pod are those of the label, which must then be large enough.
        return can_name_hosts and not (request.demands.kinds.min_mib and request.share.is_bound_by_memory)

    def why_unschedulable(self, request: PlacementRequest) -> Unschedulable:
        """Return why no node could ever hold the pod; call it only if the pod's selection is empty."""
        return why_unschedulable(self._obstacles(request), request)

    def _refresh(self) -> None:
        """Apply changes to the index, and drop selections that are no longer valid."""
        self._node_index.flush()
        if self._generation != self._node_index.generation:
            self._latest = self._matching = self._of_kinds = None
            self._known.clear()
            self._taken = 0
            self._generation = self._node_index.generation

    def _remember(self, key: Hashable, candidates: Candidates) -> None:
        if candidates.size > MAX_BYTES_OF_ONE + _BYTES_OF_A_SELECTION:
            return
        self._known[key] = candidates
        self._taken += candidates.size
        while self._taken > MAX_BYTES:
            _, oldest = self._known.popitem(last=False)
            self._taken -= oldest.size

    def _obstacles(self, request: PlacementRequest) -> Iterator[tuple[Obstacle, int, bool]]:
        """Yield obstacles, their numbers of nodes, and whether the pod's own demands accept these nodes.

        One node of each class represents the others.
        """
        named = request.demands.constraints.node_name
        account = self._node_index.accounts.get(named) if named is not None else None
        if account is not None and account.fact is not None:
            other = Obstacle.OTHER_NODE if request.demands.kinds == EVERY_KIND else Obstacle.LABELS
            yield obstacle(account.fact, request.on_card(account.fact.gpu_mib)) or other, 1, True
            return
        accepted = self._accepted(request)
        for node_class in self._node_index.classes.values():
            on_card = request.on_card(node_class.sample.gpu_mib)
            yield from self._obstacles_of_class(node_class, on_card, accepted)

    def _accepted(self, request: PlacementRequest) -> NodeSet:
        """Return the nodes that a pod's own demands accept, ignoring those on GPU memory.

        Those on GPU memory also exclude nodes without the label, which the message has to name.
        """
        nodes = self.matching(without_label(request.demands.constraints, GPU_MEMORY_LABEL))
        kinds = GpuKinds(request.demands.kinds.models)
        if kinds == EVERY_KIND:
            return nodes
        asked = by_labels(kinds, models_of(kinds, self._values.labels()))
        return nodes & self._node_index.labels.matching(asked, self.work)

    def _obstacles_of_class(
        self, node_class: NodeClass, request: PlacementRequest, accepted: NodeSet
    ) -> Iterator[tuple[Obstacle, int, bool]]:
        """Yield the obstacles of a class none of whose nodes could hold the pod."""
        if request.demands.constraints.node_name is not None:
            yield Obstacle.OTHER_NODE, len(node_class.members), False
            return
        by_gpus = gpu_obstacle(node_class.sample, request)
        # If the labels match too, taints are the obstacle.
        nodes = self._matching_class(node_class, request) if by_gpus is None else node_class.nodes & accepted
        count = nodes.bit_count()
        if count:
            yield by_gpus or Obstacle.TAINTS, count, True
        if len(node_class.members) > count:
            yield by_gpus or Obstacle.LABELS, len(node_class.members) - count, False

    def _select(self, request: PlacementRequest) -> Candidates:
        keys = _keys(request)
        found = sorted(self._classes(request), key=lambda each: each[0].order)
        classes, nodes = tuple([each for each, _ in found]), union([matching for _, matching in found])
        if all(not each.nodes & ~nodes for each in classes):
            return Candidates(request, keys, classes, nodes)
        if nodes.bit_count() <= _FEW:
            few = sorted(self._node_index.named(nodes), key=lambda account: account.name)
            return Candidates(request, keys, (), nodes, few=tuple(few))
        return Candidates(request, keys, classes, nodes, self._accepts(nodes))

    def _accepts(self, nodes: NodeSet) -> Callable[[NodeAccount], bool]:
        """Return a function: whether a node is in a set.

        It is not charged to the decision: the number of calls depends on what other pods left free. It is at
        most a few per node and size, whatever the pod demands.
        """
        numbers, size = self._node_index.numbers, nodes.bit_length() + 7 >> 3
        mask = nodes.to_bytes(size, "little")

        def accepts(account: NodeAccount) -> bool:
            number = numbers[account.name]
            return number >> 3 < size and bool(mask[number >> 3] >> (number & 7) & 1)

        return accepts

    def _classes(self, request: PlacementRequest) -> Iterator[tuple[NodeClass, NodeSet]]:
        """Yield classes whose GPUs and taints accept the pod, with their matching nodes."""
        constraints, tolerated = request.demands.constraints, dict[tuple[Taint, ...], bool]()
        tolerations = TolerationIndex(constraints.tolerations)
        self.work.spend(len(constraints.tolerations))
        for node_class in self._node_index.classes.values():
            node, matching = node_class.sample, self._matching_class(node_class, request)
            if not matching or gpu_obstacle(node, request) is not None:
                continue
            is_tolerated = tolerated.get(node.taints)
            if is_tolerated is None:
                # A pod with nodeName bypasses the scheduler, and thus taints.
                is_named = constraints.node_name is not None
                is_tolerated = tolerated[node.taints] = is_named or tolerations.tolerates(node.taints)
            if is_tolerated:
                yield node_class, matching


def label_keys(constraints: Constraints) -> frozenset[str]:
    """Return the label keys in a pod's nodeSelector and required node affinity."""
    terms = constraints.required_terms or ()
    asked = [asked.key for term in terms for asked in term.match_expressions or ()]
    return frozenset(constraints.node_selector).union(asked)


def _keys(request: PlacementRequest) -> frozenset[str]:
    """Return the label keys that a pod names, including those for its kinds of GPU."""
    keys = label_keys(request.demands.constraints)
    return keys | {GPU_PRODUCT_LABEL} if request.demands.kinds.models else keys


def _key(request: PlacementRequest) -> Hashable:
    share, asked, fraction = request.share, request.demands.constraints, request.share.fraction
    selector = tuple(sorted(asked.node_selector.items())) if asked.node_selector else ()
    # The split of MiB decides for which kinds of GPU they give the same slices.
    split = (fraction.split, fraction.split_mib) if fraction.mib else ()
    size = fraction.slices, fraction.slices_per_gpu, fraction.parts, fraction.exact, fraction.mib, split
    # With the size and the mode, these decide whether memory binds the pod, and whether it needs an agent.
    limits = share.writes_limits, share.instance is not None, fraction.gpus if fraction.is_apart else 0
    of_mode = share.mode, share.resource_unit, share.pool
    of_cards = request.demands.kinds, request.keeps_model
    return of_mode, size, limits, of_cards, selector, asked.required_terms, asked.tolerations, asked.node_name
