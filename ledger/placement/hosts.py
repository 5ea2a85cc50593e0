"""The hosts that a pod must require or exclude, because no label says which GPUs of a node fit it.

Labels restrict a pod to nodes, and resource names to GPU indices, but the scheduler knows neither of cards
that differ from the labels, nor of the slices of each card of a pool. A pod excludes the hosts where it could
get GPUs that do not fit. If these are too many, it requires some hosts that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

import msgspec

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, HOSTNAME_LABEL
from ledger.accounts import has_room
from ledger.placement.candidates import Candidates
from ledger.placement.cards import card_sets
from ledger.placement.label_index import NodeSet
from ledger.placement.node_index import NodeIndex
from ledger.placement_request import MAX_HOSTS, Placement, PlacementRequest, Unschedulable
from modes.facts import NodeFact
from modes.fraction import Fraction


def on_hosts(
    placed: Placement, request: PlacementRequest, candidates: Candidates, index: NodeIndex
) -> Placement | Unschedulable:
    """Return the placement with hosts to require or exclude, or a refusal if every node would fail it."""
    if not request.share.mode_type.chooses_gpus:
        is_of_pool = request.share.mode_type.counts_slices
        return _of_pool(placed, request, candidates, index) if is_of_pool else placed
    odd = [each for each in index.classes.values() if each.layout is not None]
    wanted = candidates.demand
    if not odd or wanted is None or not placed.indices:
        return placed

    def fits(node: NodeFact) -> bool:
        sets = card_sets(node, wanted)
        return _has_all(node, placed) and (sets is None or any(each >= {*placed.indices} for each in sets))

    def leads_to(node: NodeFact) -> bool:
        kinds, model = request.demands.kinds, node.labels.get(GPU_PRODUCT_LABEL)
        is_of_kind = kinds.takes_model(model) and kinds.min_mib <= (node.gpu_mib or 0)
        return is_of_kind and admits(node, placed) and _has_all(node, placed)

    own = index.fact(placed.node) if placed.node is not None else None
    tried = [own] if own is not None else [sample for sample, _ in candidates.samples()]
    if any(leads_to(each) and fits(each) for each in tried):
        unfit = [each.nodes for each in odd if leads_to(each.sample) and not fits(each.sample)]
        others = _first_hosts(index, unfit, MAX_HOSTS + 1)
        if len(others) <= MAX_HOSTS:
            return msgspec.structs.replace(placed, other_hosts=others) if others else placed
    fitting = [each.nodes & candidates.nodes for each in candidates.classes if fits(each.sample)]
    return msgspec.structs.replace(placed, hosts=_first_hosts(index, fitting, MAX_HOSTS, own))


def _of_pool(
    placed: Placement, request: PlacementRequest, candidates: Candidates, index: NodeIndex
) -> Placement | Unschedulable:
    """Keep a pod off nodes that would give it slices of several GPUs: the agent rejects it there for good."""
    fraction, spanning, others = request.share.fraction, list[NodeFact](), list[NodeFact]()
    for (_, left, _), accounts in candidates.states():
        spans = len(left) > 1 and sum(left) >= fraction.slices and not has_room(left, fraction)
        found = spanning if spans else others
        nodes = (each.fact for each in accounts if each.fact is not None and admits(each.fact, placed))
        found += islice(nodes, MAX_HOSTS + 1 - len(found))
    own = index.fact(placed.node) if placed.node is not None else None
    if len(spanning) <= MAX_HOSTS:
        admitted = sum([count for fact, count in candidates.samples() if admits(fact, placed)])
        if own is None and spanning and len(spanning) >= admitted:
            return _in_no_one_piece(fraction)
        hosts = tuple(sorted(hosts_of(spanning)))
        return msgspec.structs.replace(placed, other_hosts=hosts) if hosts else placed
    only = dict.fromkeys(hosts_of([own, *others] if own is not None else others))
    hosts = tuple(sorted(islice(only, MAX_HOSTS)))
    return msgspec.structs.replace(placed, hosts=hosts) if hosts else _in_no_one_piece(fraction)


def admits(node: NodeFact, placed: Placement) -> bool:
    """Whether a node has the GPU labels that a placement requires."""
    values, product = placed.memory_values, node.labels.get(GPU_PRODUCT_LABEL)
    return (not values or node.labels.get(GPU_MEMORY_LABEL) in values) and placed.model in {None, product}


def hosts_of(nodes: Iterable[NodeFact]) -> Iterator[str]:
    """Yield the values of the label, which kubelets give every node, with which pods can name these nodes."""
    for node in nodes:
        if host := node.labels.get(HOSTNAME_LABEL):
            yield host


def _first_hosts(
    index: NodeIndex, sets: Iterable[NodeSet], count: int, first: NodeFact | None = None
) -> tuple[str, ...]:
    """Return at most `count` hosts of sets of nodes, sorted; that of `first` is among them."""
    facts = (each.fact for each in chain(*map(index.named, sets)) if each.fact is not None)
    hosts = dict.fromkeys(hosts_of(chain((first,) if first is not None else (), islice(facts, count))))
    return tuple(sorted(islice(hosts, count)))


def _has_all(node: NodeFact, placed: Placement) -> bool:
    return {index for index, _ in node.gpus}.issuperset(placed.indices)


def _in_no_one_piece(fraction: Fraction) -> Unschedulable:
    """The refusal: the pod cannot wait, as the scheduler would bind it and the agent would fail it."""
    slices = f"{fraction.slices_on_each} free slices"
    lack = (
        f"no GPU has {slices}"
        if fraction.gpus == 1
        else f"no node has {fraction.gpus} GPUs with {slices} each"
    )
    return Unschedulable(
        f"{lack} now, and a share that spans more GPUs would fail: try again later, or request less",
        is_for_now=True,
    )
