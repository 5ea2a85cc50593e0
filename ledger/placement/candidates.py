"""Which nodes a pod could ever run on, by classes, remembered for pods with the same demands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from kube.matching import labels_match, tolerates
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.accounts import NodeAccount, PricedClass
from ledger.facts import NodeFact
from ledger.placement.feasibility import (
    Obstacle,
    agent_serves,
    gpu_obstacle,
    obstacle,
    takes_now,
    why_unschedulable,
)
from ledger.placement.node_class_load import NodeClassLoad
from ledger.placement.node_groups import NodeGroups, Search
from ledger.placement.node_index import NodeClass, NodeIndex
from ledger.placement.pick_index import Kinds, kinds
from ledger.placement.request_history import ShadowPrices
from ledger.placement.shape_capacity import ShapeCapacity
from ledger.placement_request import PlacementRequest, Unschedulable
from modes.mode import Mode

MAX_BYTES = 2**24
"""Of everything remembered, about; then all is forgotten, and selected again for what comes."""
MAX_BYTES_OF_ONE = 2**16
"""Of constraints that are worth remembering."""
_BYTES_OF_A_SELECTION = 2**13
"""Beside the pod's constraints."""
_MAX_SEARCHES = 8
"""Of one selection, for pods that differ in CPU and memory; then all are forgotten."""
_FEW = 64
"""Nodes that are asked one by one rather than looked for in groups."""


@dataclass(frozen=True)
class Candidates:
    """The nodes that could hold a pod some day: whole classes, or what of them `accepts` lets pass."""

    request: PlacementRequest
    """One of the requests that are alike, for its constraints and fraction."""
    classes: tuple[NodeClass, ...]
    accepts: Callable[[NodeAccount], bool] | None = None
    few: tuple[NodeAccount, ...] | None = None
    """Set instead of classes where the pod names its nodes."""
    loads: dict[int, tuple[NodeClassLoad, NodeClassLoad]] = field(default_factory=dict)
    """Where such pods are counted, by steps of CPU that they request (see node_class_prices)."""

    searches: dict[tuple[ShadowPrices, int, int, tuple[int, ...]], Search] = field(default_factory=dict)
    """By prices, CPU, memory, and slices of each container."""

    def search(self, request: PlacementRequest, prices: ShadowPrices) -> Search:
        """How one of the pods is looked for; the same for those that ask for as much."""
        asked = prices, request.cpu_milli, request.memory_bytes, request.fraction.split
        search = self.searches.get(asked)
        if search is None:
            if len(self.searches) >= _MAX_SEARCHES:
                self.searches.clear()
            search = self.searches[asked] = Search(request, prices, self.accepts)
        return search

    @cached_property
    def mode(self) -> type[Mode]:
        """How the pods' mode counts GPUs."""
        return self.request.mode_type

    @cached_property
    def is_bound_by_memory(self) -> bool:
        """Whether the pods may only go where their share comes to the MiB that were written into them."""
        return self.request.is_bound_by_memory

    @cached_property
    def is_empty(self) -> bool:
        """Whether no node could ever hold the pod."""
        return next(self.nodes(), None) is None

    @cached_property
    def kinds(self) -> Kinds:
        """What there is to wait for."""
        return kinds(self._capacities(), self.request)

    @cached_property
    def groups(self) -> tuple[NodeGroups, ...]:
        """Where to look for room, by the pod's way of counting GPUs."""
        return tuple(
            c.groups[self.request.mode, self.request.stock]
            for c in self.classes
            if agent_serves(c.sample, self.request)
        )

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

    def nodes(self) -> Iterator[NodeFact]:
        """The nodes themselves."""
        accounts = self.few if self.few is not None else (a for c in self.classes for a in c.members.values())
        for account in accounts:
            if account.fact is not None and (self.accepts is None or self.accepts(account)):
                yield account.fact

    def _capacities(self) -> Iterable[ShapeCapacity]:
        """What the nodes offer: those that could hold the pod today, if there are any, else all."""
        if self.few is not None or self.accepts is not None:
            nodes = list(self.nodes())
            return map(ShapeCapacity.of, [node for node in nodes if takes_now(node, self.request)] or nodes)
        usable = [c for c in self.classes if c.usable.nodes]
        usable = [c for c in usable if agent_serves(c.sample, self.request)] or usable
        return [c.usable for c in usable] or [c.unusable for c in self.classes]


class CandidateFinder:
    """Selections, forgotten when nodes change in what they state."""

    def __init__(self, node_index: NodeIndex) -> None:
        self._node_index = node_index
        self._generation = -1
        self._known: dict[Hashable, Candidates] = {}
        self._taken = 0
        """Bytes."""
        self._latest: tuple[PlacementRequest, Candidates] | None = None
        """The question of the last pod, which is asked again as soon as the pod is placed and counted."""

    def select(self, request: PlacementRequest) -> Candidates:
        """The nodes that could hold the pod some day."""
        self._node_index.flush()
        if self._generation != self._node_index.generation:
            self._forget()
        if self._latest is not None and self._latest[0] is request:
            return self._latest[1]
        key = _key(request)
        candidates = self._known.get(key)
        if candidates is None:
            candidates = self._select(request)
            if self._generation != self._node_index.generation:
                # Nodes were told apart anew for this pod: earlier selections hold classes that are no more.
                self._forget()
            self._remember(key, candidates)
        self._latest = request, candidates
        return candidates

    def why_unschedulable(self, request: PlacementRequest) -> Unschedulable:
        """Say why no node could ever hold the pod; the caller has seen that its selection is empty."""
        return why_unschedulable(self._obstacles(request), request)

    def _forget(self) -> None:
        self._latest = None
        self._known.clear()
        self._taken = 0
        self._generation = self._node_index.generation

    def _remember(self, key: Hashable, candidates: Candidates) -> None:
        size = candidates.request.constraints.size()
        if size > MAX_BYTES_OF_ONE:
            return
        size += _BYTES_OF_A_SELECTION
        if self._taken + size > MAX_BYTES:
            self._forget()
        self._known[key] = candidates
        self._taken += size

    def _obstacles(self, request: PlacementRequest) -> Iterator[tuple[Obstacle, int]]:
        """What keeps the pod off, and of how many nodes; asked of classes wherever they can answer."""
        named = request.constraints.node_name
        account = self._node_index.accounts.get(named) if named is not None else None
        if account is not None and account.fact is not None:
            yield obstacle(account.fact, request.on_card(account.fact.gpu_mib)) or Obstacle.OTHER_NODE, 1
            return
        for node_class in self._node_index.classes.values():
            yield from self._obstacles_of_class(node_class, request.on_card(node_class.sample.gpu_mib))

    def _obstacles_of_class(
        self, node_class: NodeClass, request: PlacementRequest
    ) -> Iterator[tuple[Obstacle, int]]:
        """What keeps the pod off the nodes of a class, none of which could hold it."""
        constraints, node, size = request.constraints, node_class.sample, len(node_class.members)
        by_gpus = gpu_obstacle(node, request)
        if constraints.node_name is not None:
            yield Obstacle.OTHER_NODE, size
        elif by_gpus is not None:
            yield by_gpus, size
        elif tolerates(constraints.tolerations, node.taints):
            yield Obstacle.LABELS, size
        elif not _asks_names(constraints) and not self._node_index.own_keys & _label_keys(constraints):
            yield obstacle(node, request) or Obstacle.LABELS, size
        else:
            facts = (account.fact for account in node_class.members.values())
            matching = sum(
                labels_match(constraints, fact.name, fact.labels) for fact in facts if fact is not None
            )
            if matching:
                yield Obstacle.TAINTS, matching
            if size > matching:
                yield Obstacle.LABELS, size - matching

    def _select(self, request: PlacementRequest) -> Candidates:
        named = _named_nodes(request.constraints)
        if named is not None:
            accounts = [self._node_index.accounts.get(name) for name in sorted(named)]
            return Candidates(
                request, (), few=tuple(a for a in accounts if a is not None and _can_hold(a, request))
            )
        keys = _label_keys(request.constraints)
        self._node_index.tell_apart_by(keys)
        own = self._node_index.own_keys & keys
        classes = tuple(sorted(self._classes(request, own), key=lambda node_class: node_class.order))
        if not own and not _asks_names(request.constraints):
            return Candidates(request, classes)
        glance = _glance(request.constraints, own)
        accepted = (a for c in classes for a in c.members.values() if glance(a) and _can_hold(a, request))
        some = tuple(islice(accepted, _FEW + 1))
        if len(some) <= _FEW:
            return Candidates(request, (), few=some)
        return Candidates(request, classes, accepts=lambda account: _can_hold(account, request))

    def _classes(self, request: PlacementRequest, own: frozenset[str]) -> Iterator[NodeClass]:
        constraints = _of_classes(request.constraints, own)
        for node_class in self._node_index.classes.values():
            node = node_class.sample
            if (
                gpu_obstacle(node, request) is None
                and tolerates(constraints.tolerations, node.taints)
                and labels_match(constraints, node.name, node.labels)
            ):
                yield node_class


def _can_hold(account: NodeAccount, request: PlacementRequest) -> bool:
    return account.fact is not None and obstacle(account.fact, request) is None


def _glance(constraints: Constraints, own: frozenset[str]) -> Callable[[NodeAccount], bool]:
    """A quick look at single nodes' own labels: False only where the whole check would say no."""
    selector = [(key, value) for key, value in constraints.node_selector.items() if key in own]
    terms = [
        [(asked.key, frozenset(asked.values or ())) for asked in term if asked.operator == "In"]
        for term in _own_requirements(constraints, own)
    ]

    def may_match(labels: Mapping[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in selector):
            return False
        return any(all(labels.get(key) in values for key, values in term) for term in terms)

    return lambda account: account.fact is not None and may_match(account.fact.labels)


def _own_requirements(constraints: Constraints, own: frozenset[str]) -> Iterator[list[Requirement]]:
    """What each term asks of single nodes' own labels; one empty term where there is no affinity."""
    if constraints.required_terms is None:
        yield []
    for term in constraints.required_terms or ():
        yield [asked for asked in term.match_expressions or () if asked.key in own]


def _key(request: PlacementRequest) -> Hashable:
    asked, fraction = request.constraints, request.fraction
    selector = tuple(sorted(asked.node_selector.items())) if asked.node_selector else ()
    # How MiB are split decides which kinds of GPU make the same slices of them.
    split = (fraction.split, fraction.split_mib) if fraction.mib else ()
    size = fraction.slices, fraction.slices_per_gpu, fraction.parts, fraction.exact, fraction.mib, split
    # With the size and the mode these decide whether memory binds the pod, and whether it needs an agent.
    limits = request.writes_limits, request.instance is not None, fraction.gpus if fraction.is_apart else 0
    stock = request.stock if request.instance is not None else None
    of_mode = request.mode, stock
    return of_mode, size, limits, selector, asked.required_terms, asked.tolerations, asked.node_name


def _named_nodes(constraints: Constraints) -> set[str] | None:
    """The only nodes that a pod may be on, as far as it names them itself."""
    if constraints.node_name is not None:
        return {constraints.node_name}
    if constraints.required_terms is None:
        return None
    named: set[str] = set()
    for term in constraints.required_terms:
        values = [field.values or () for field in term.match_fields or () if field.operator == "In"]
        if not values:
            return None
        named.update(values[0])
    return named


def _requirements(constraints: Constraints) -> Iterator[Requirement]:
    for term in constraints.required_terms or ():
        yield from term.match_expressions or ()


def _label_keys(constraints: Constraints) -> frozenset[str]:
    return frozenset(constraints.node_selector) | {asked.key for asked in _requirements(constraints)}


def _asks_names(constraints: Constraints) -> bool:
    return any(term.match_fields for term in constraints.required_terms or ())


def _of_classes(constraints: Constraints, own: frozenset[str]) -> Constraints:
    """The constraints without what only single nodes can answer: their names and their own labels."""
    terms = constraints.required_terms
    kept = None
    if terms is not None:
        kept = tuple(NodeSelectorTerm(_shared(term, own), None) for term in terms if not term.is_empty)
        if any(term.is_empty for term in kept):
            kept = None
    selector = {key: value for key, value in constraints.node_selector.items() if key not in own}
    return Constraints(selector, kept, constraints.tolerations)


def _shared(term: NodeSelectorTerm, own: frozenset[str]) -> tuple[Requirement, ...]:
    return tuple(asked for asked in term.match_expressions or () if asked.key not in own)
