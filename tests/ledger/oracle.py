"""Whether an answer of the ledger is right, by the slow checker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube.names import GPU_PRODUCT_LABEL
from ledger.ledger import Ledger
from ledger.placement_request import Placement, PlacementRequest, Unschedulable
from modes.facts import NodeFact, PodFact
from tests.ledger.checker import (
    SlowNode,
    admits,
    card_choices,
    card_of,
    card_suits,
    could_ever_hold,
    has_room,
    is_kept_to,
    labels_are_true,
    model_of_owner,
    would_span,
)


class SlowCluster(dict[str, SlowNode]):
    """Slow nodes by name, and the claims that have none."""

    def __init__(self, nodes: Iterable[NodeFact]) -> None:
        super().__init__({node.name: SlowNode(node) for node in nodes})
        self.waiting: list[Any] = []


def slow_nodes(
    nodes: Iterable[NodeFact], pods: Iterable[PodFact], ledger: Ledger, now: float = 0.0
) -> SlowCluster:
    """Nodes with what pods and reservations of the last seconds took, added up from the lists."""
    slow = SlowCluster(nodes)
    reservations = [each.claim for each in ledger._reservations._by_name.values() if each.expires_at > now]
    for claim in [*(pod for pod in pods if not pod.is_over), *reservations]:
        on = claim.node or claim.promised_node
        if on in slow:
            slow[on].take(claim)
        elif on is None:
            slow.waiting.append(claim)
    return slow


def assert_right(answer: object, request: PlacementRequest, slow: SlowCluster) -> None:
    """The answer is Unschedulable only if no node fits ever, a node only if it has room now."""
    eligible = [node for node in slow.values() if could_ever_hold(node.fact, request)]
    model = (
        model_of_owner(request.accounting.owner, slow, slow.waiting)
        if request.accounting.owner and request.demands.same_model
        else None
    )
    if model is not None:
        eligible = [node for node in eligible if is_kept_to(model, node.fact)]
    fitting = {node.fact.name for node in eligible if has_room(node, request)}
    if not eligible:
        assert isinstance(answer, Unschedulable)
        return
    if request.share.mode == "pooled" and all(_fails_now(node, request) for node in eligible):
        assert isinstance(answer, Unschedulable)
        return
    assert isinstance(answer, Placement)
    _assert_binds_to_suiting_cards(answer, request, slow, eligible)
    if answer.node is None:
        assert not fitting
        _assert_waits_where_it_can(answer, request, eligible)
        return
    assert answer.node in _spread(fitting, request, slow)
    _assert_has_room(answer, request, slow[answer.node])


def _assert_binds_to_suiting_cards(
    answer: Placement, request: PlacementRequest, slow: SlowCluster, eligible: list[SlowNode]
) -> None:
    """Wherever the scheduler may bind the pod, the GPUs of its numbers suit it; and somewhere it may."""
    for node in slow.values():
        has_all = set(answer.indices) <= {index for index, _ in node.fact.gpus}
        if answer.indices and has_all and admits(node.fact, answer, request):
            assert _have_suiting_cards(node, answer, request), node.fact
    for node in eligible if request.share.mode == "pooled" else ():
        assert not (_fails_now(node, request) and admits(node.fact, answer, request))
    assert any(admits(node.fact, answer, request) for node in eligible)
    if answer.node is not None:
        assert admits(slow[answer.node].fact, answer, request)


def _fails_now(node: SlowNode, request: PlacementRequest) -> bool:
    """Whether a node would take a pod of mode pooled now, and its agent refuse it."""
    is_part = request.share.fraction.slices_on_each < request.share.fraction.slices_per_gpu
    by_agent = is_part and not request.share.writes_limits and node.fact.agent == "away"
    return node.fact.usable and not by_agent and would_span(node, request)


def _have_suiting_cards(node: SlowNode, answer: Placement, request: PlacementRequest) -> bool:
    if labels_are_true(node.fact):
        return True
    indices = set(answer.indices)
    sizes = {card_of(node.fact, index)[1] for index in indices}
    is_equal = request.share.fraction.parts == 1 or request.share.writes_limits or len(sizes) == 1
    return is_equal and all(card_suits(node.fact, index, request) for index in indices)


def _spread(fitting: set[str], request: PlacementRequest, slow: SlowCluster) -> set[str]:
    """Of nodes with room those to choose from: with `spread` those with the fewest of the owner's pods."""
    if not request.accounting.owner or request.demands.place == "pack":
        return fitting
    shares = {name: len(slow[name].shares_of(request.accounting.owner)) for name in fitting}
    return {name for name in fitting if shares[name] == min(shares.values())}


def _assert_waits_where_it_can(
    answer: Placement, request: PlacementRequest, eligible: list[SlowNode]
) -> None:
    kinds = [
        cards
        for node in eligible
        if _is_bound_to(node, answer, request)
        for cards in ([set[int]()] if request.share.mode == "pooled" else card_choices(node.fact, request))
    ]
    assert len(answer.indices) == (0 if request.share.mode == "pooled" else request.share.fraction.gpus)
    assert any(set(answer.indices) <= indices for indices in kinds)


def _is_bound_to(node: SlowNode, answer: Placement, request: PlacementRequest) -> bool:
    """Whether the answer's requirements, if `sameModel` makes any, let the pod go to a node."""
    if not request.accounting.owner or not request.demands.same_model:
        return True
    return is_kept_to((answer.model, answer.gpu_mib or None), node.fact)


def _mib(answer: Placement, request: PlacementRequest, fact: NodeFact) -> int:
    """What the label says; where it does not bind the pod, what the agent says of the chosen cards."""
    is_bound = request.share.writes_limits and not request.share.fraction.is_whole
    cards = dict(fact.cards)
    chosen = [cards.get(index) for index in answer.indices] or list(cards.values())
    known = [mib for mib in chosen if mib is not None]
    if is_bound or not known or len(known) < len(chosen):
        return fact.gpu_mib or 0
    return min(known)


def _assert_has_room(answer: Placement, request: PlacementRequest, node: SlowNode) -> None:
    assert answer.gpu_mib == _mib(answer, request, node.fact)
    if request.accounting.owner and request.demands.same_model:
        assert answer.model == node.fact.labels.get(GPU_PRODUCT_LABEL)
        assert answer.memory_values == ((str(node.fact.gpu_mib),) if node.fact.gpu_mib else ())
    elif not request.share.writes_limits or request.share.fraction.is_whole:
        assert answer.memory_values == ()
    if request.share.mode == "pooled":
        assert answer.indices == ()
        return
    free, each = node.free(), request.share.fraction.slices_on_each
    choices = card_choices(node.fact, request)
    assert len(set(answer.indices)) == request.share.fraction.gpus
    (cards,) = [cards for cards in choices if cards >= set(answer.indices)]
    free = {index: left for index, left in free.items() if index in cards}
    assert all(free[index] >= each for index in answer.indices)
    if request.accounting.owner and request.demands.place == "spread" and not request.share.fraction.is_whole:
        shares = node.shares_of(request.accounting.owner)
        most = sorted(shares.count(index) for index in free if free[index] >= each)[
            request.share.fraction.gpus - 1
        ]
        assert all(shares.count(index) <= most for index in answer.indices)
