"""Finds the nodes that a pod could ever run on, and remembers them for pods with equal demands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from kube.matching import TolerationIndex
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from kube.scheduling import Taint, without_label
from ledger.accounts import NodeAccount
from ledger.placement.cards import CardDemand, demand
from ledger.placement.feasibility import Obstacle, gpu_obstacle, takes_now, why_unschedulable
from ledger.placement.label_index import NodeSet
from ledger.placement.node_class import Found, NodeClass, Search, State
from ledger.placement.node_index import NodeIndex
from ledger.placement_request import PlacementRequest, Unschedulable
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds

MAX_KEPT = 1024
"""Selections that are remembered; beyond it, all are dropped."""
MAX_BYTES = 2**14
"""Approximate bytes of the constraints of a selection that is remembered."""
_Test = Callable[[NodeAccount], bool]
_FEW = 64
"""Up to this number, nodes are compared one by one instead of in groups."""


@dataclass(frozen=True)
class Candidates:
    """The nodes that could ever hold a pod: in each of some classes all, or those of `nodes`."""

    request: PlacementRequest
    """One of the requests with these demands."""
    index: NodeIndex
    classes: tuple[NodeClass, ...]
    nodes: NodeSet
    is_part: bool
    """Whether some nodes of the classes are not among them."""

    @cached_property
    def demand(self) -> CardDemand | None:
        """The pods' demands on each card."""
        return demand(self.request)

    def samples(self) -> Iterator[tuple[NodeFact, int]]:
        """Yield one node of each class, and how many nodes offer the same."""
        return ((each.sample, (each.nodes & self.nodes).bit_count()) for each in self.classes)

    def states(self) -> Iterator[tuple[State, Iterable[NodeAccount]]]:
        """Yield the nodes that take pods now, by the state of their GPUs."""
        for each in self._now:
            for state, accounts in each.states():
                yield state, filter(self.holds, accounts) if self.is_part else accounts

    def holds(self, account: NodeAccount) -> bool:
        """Whether a node is one of them."""
        number = self.index.labels.numbers.get(account.name)
        return number is not None and bool(self.nodes >> number & 1)

    @cached_property
    def _now(self) -> tuple[NodeClass, ...]:
        """The classes that take pods now."""
        return tuple([each for each in self.classes if takes_now(each.sample, self.request)])

    @cached_property
    def _few(self) -> tuple[NodeAccount, ...] | None:
        """The nodes by name, if they are few and parts of classes."""
        if not self.is_part or self.nodes.bit_count() > _FEW:
            return None
        return tuple(sorted(self.index.named(self.nodes), key=lambda account: account.name))

    def best(self, request: PlacementRequest, only: _Test | None = None) -> Found | None:
        """Return the best node that passes `only`, always the same of equals; None without room."""
        if self._few is not None:
            scores = [(self.score(each, request), each) for each in self._few if only is None or only(each)]
            known = [(value, each) for value, each in scores if value is not None]
            return max(known, key=lambda each: each[0], default=None)

        def accepts(account: NodeAccount) -> bool:
            return (only is None or only(account)) and self.holds(account)

        search, found = Search(request, accepts if self.is_part else only), None
        for each in self._now:
            found = each.best(search, found)
        return found

    def score(self, account: NodeAccount, request: PlacementRequest) -> int | None:
        """Return the score of one of the nodes for one of the pods; None if it has no room now."""
        node_class = self.index.class_of(account.name)
        return node_class.score(account, Search(request, None)) if node_class in self._now else None


class CandidateFinder:
    """Selections, which are dropped when the facts of nodes change."""

    def __init__(self, index: NodeIndex) -> None:
        self.index = index
        self._generation = -1
        self._known: dict[Hashable, Candidates] = {}

    def without_unknown(self, request: PlacementRequest) -> PlacementRequest:
        """Leave out extended resources that no node offers: something other than nodes may give them."""
        self._refresh()
        if not request.share.extended:
            return request
        known = set[str]().union(*[each.sample.extended for each in self.index.classes.values()])
        return request.with_share(
            extended=tuple([each for each in request.share.extended if each[0] in known])
        )

    def select(self, request: PlacementRequest) -> Candidates:
        """Return the nodes that could ever hold the pod."""
        self._refresh()
        key = _key(request)
        candidates = self._known.get(key)
        if candidates is None:
            candidates = self._select(request)
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            if request.demands.constraints.size() <= MAX_BYTES:
                self._known[key] = candidates
        return candidates

    def accepting(self, request: PlacementRequest) -> tuple[NodeClass, ...]:
        """Return the classes that a pod's labels and tolerations accept, whatever the size of its share."""
        per_gpu = request.share.fraction.slices_per_gpu
        return self.select(request.with_share(fraction=Fraction(per_gpu, per_gpu))).classes

    def why_unschedulable(self, request: PlacementRequest) -> Unschedulable:
        """Return why no node could ever hold the pod; call it only if the pod's selection is empty."""
        return why_unschedulable(self._obstacles(request), request)

    def _refresh(self) -> None:
        """Apply changes to the index, and drop selections that are no longer valid."""
        self.index.flush()
        if self._generation != self.index.generation:
            self._known.clear()
            self._generation = self.index.generation

    def _select(self, request: PlacementRequest) -> Candidates:
        constraints, tolerated = request.demands.constraints, dict[tuple[Taint, ...], bool]()
        matching = self.index.labels.matching(constraints)
        tolerations = TolerationIndex(constraints.tolerations)
        found = list[NodeClass]()
        for each in self.index.classes.values():
            node = each.sample
            if not each.nodes & matching or not _accepts_kind(each, request):
                continue
            if gpu_obstacle(node, request) is not None:
                continue
            if node.taints not in tolerated:
                # A pod with nodeName bypasses the scheduler, and thus taints.
                is_named = constraints.node_name is not None
                tolerated[node.taints] = is_named or tolerations.tolerates(node.taints)
            if tolerated[node.taints]:
                found.append(each)
        # A node whose device plugin is away states 0. If none states all of them, the pod waits.
        needed = {name for name, _ in request.share.extended}
        offering = [each for each in found if needed <= each.sample.extended.keys()]
        found = sorted(offering or found, key=lambda each: each.order)
        nodes = 0
        for each in found:
            nodes |= each.nodes & matching
        is_part = any(each.nodes & ~matching for each in found)
        return Candidates(request, self.index, tuple(found), nodes, is_part)

    def _obstacles(self, request: PlacementRequest) -> Iterator[tuple[Obstacle, int, bool]]:
        """Yield obstacles, their numbers of nodes, and whether the pod's own demands accept these nodes."""
        constraints, kinds = request.demands.constraints, request.demands.kinds
        if constraints.node_name is not None and self.index.classes:
            fact = self.index.fact(constraints.node_name)
            lacks = (
                gpu_obstacle(fact, request.on_card(fact.gpu_mib)) if fact is not None else Obstacle.OTHER_NODE
            )
            yield lacks or Obstacle.LABELS, 1, fact is not None
            return
        # Demands on GPU memory also exclude nodes without the label, which the message has to name.
        matching = self.index.labels.matching(constraints)
        asked_for = self.index.labels.matching(without_label(constraints, GPU_MEMORY_LABEL))
        for each in self.index.classes.values():
            sample, sized = each.sample, request.on_card(each.sample.gpu_mib)
            lacks, accepted = gpu_obstacle(sample, sized), asked_for
            if lacks is None:
                # If the labels match too, taints are the obstacle.
                accepted = matching if _accepts_kind(each, sized) else 0
            elif not GpuKinds(kinds.models).takes_model(sample.labels.get(GPU_PRODUCT_LABEL)):
                accepted = 0
            count = (each.nodes & accepted).bit_count()
            yield lacks or Obstacle.TAINTS, count, True
            yield lacks or Obstacle.LABELS, each.nodes.bit_count() - count, False


def _accepts_kind(node_class: NodeClass, request: PlacementRequest) -> bool:
    """Whether the labels of a class are of a kind of GPU that the pod accepts.

    If cards differ from the labels and the pod can require hosts instead of labels, only the cards decide.
    """
    kinds, node = request.demands.kinds, node_class.sample
    if kinds == EVERY_KIND:
        return True
    # A pod can require hosts only if we choose its GPU. The MiB that are written into a pod are those of the
    # label, which must then be large enough.
    can_name_hosts = request.share.mode_type.chooses_gpus and node_class.layout is not None
    if can_name_hosts and not (kinds.min_mib and request.share.is_bound_by_memory):
        return True
    is_large = not kinds.min_mib or (node.gpu_mib or 0) >= kinds.min_mib
    product = node.labels.get(GPU_PRODUCT_LABEL)
    return is_large and kinds.takes_model(product) and not (kinds.models and product is None)


def _key(request: PlacementRequest) -> Hashable:
    share, asked, fraction = request.share, request.demands.constraints, request.share.fraction
    selector = tuple(sorted(asked.node_selector.items())) if asked.node_selector else ()
    others = tuple([name for name, _ in share.extended])
    of_mode = share.mode, share.writes_limits, share.resource_unit, share.pool, others
    of_cards = request.demands.kinds, request.keeps_model, request.demands.awaits_names
    constraints = selector, asked.required_terms, asked.tolerations, asked.node_name
    return of_mode, fraction, of_cards, constraints
