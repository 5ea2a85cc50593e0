"""Placement written a second time, slowly and from the rules: one node at a time, nothing remembered.

Nothing here calls the code under test; all that is shared is how Kubernetes matches labels and taints, which
tests/kube tries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kube.matching import labels_match, tolerates
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, HOSTNAME_LABEL
from ledger.placement_request import Placement, PlacementRequest
from modes.facts import NodeFact, PodFact
from modes.units import POOL


@dataclass
class SlowNode:
    """A node, and what was taken of it."""

    fact: NodeFact
    taken: dict[int, int] = field(default_factory=dict)
    pooled: int = 0
    cpu: int = 0
    memory: int = 0
    claims: list[PodFact] = field(default_factory=list)

    def take(self, claim: PodFact) -> None:
        self.claims.append(claim)
        for unit, amount in claim.takes:
            if unit is POOL:
                self.pooled += amount
            else:
                self.taken[unit] = self.taken.get(unit, 0) + amount
        self.cpu += claim.cpu_milli
        self.memory += claim.memory_bytes

    def shares_of(self, owner: str) -> list[int | None]:
        """The GPUs that an owner's pods have here, one for each share."""
        shares: list[int | None] = []
        for claim in self.claims:
            if claim.owner == owner:
                shares += [None if unit is POOL else unit for unit, _ in claim.takes]
        return shares

    def free(self) -> dict[int, int]:
        left = {}
        for index, capacity in self.fact.gpus:
            if index not in self.fact.cordoned:
                left[index] = max(capacity - self.taken.get(index, 0), 0)
        return left


def could_ever_hold(fact: NodeFact, request: PlacementRequest) -> bool:
    """Static fit: the pod's node name, GPUs, labels and taints."""
    if request.demands.constraints.node_name not in (None, fact.name):
        return False
    if request.share.mode == "pooled":
        gpus = fact.pooled_gpus if fact.pooled else 0
        per_gpu = fact.pooled // gpus if gpus else 0
    else:
        gpus, per_gpu = len(fact.gpus), fact.slices_per_gpu if fact.gpus else 0
    if (
        not (fact.pooled if request.share.mode == "pooled" else fact.gpus)
        or gpus < request.share.fraction.gpus
    ):
        return False
    if per_gpu not in (0, request.share.fraction.slices_per_gpu):
        return False
    is_part = request.share.fraction.slices_on_each < request.share.fraction.slices_per_gpu
    if (fact.gpu_mib is None and request.share.writes_limits and is_part) or not card_choices(fact, request):
        return False
    if fact.agent == "missing" and not request.share.writes_limits and is_part:
        return False
    constraints = request.demands.constraints
    return labels_match(constraints, fact.name, fact.labels) and (
        constraints.node_name is not None or tolerates(constraints.tolerations, fact.taints)
    )


def labels_are_true(fact: NodeFact) -> bool:
    """Whether no agent says that cards are other than the labels say, or differ."""
    label = fact.labels.get(GPU_PRODUCT_LABEL, "")
    sizes = {mib for _, mib in fact.cards}
    models = [model or label for model in fact.card_models]
    return not fact.cards or (
        len(sizes) == 1
        and abs(min(sizes) - (fact.gpu_mib or 0)) * 32 < (fact.gpu_mib or 0)
        and all(label in (model, f"{model}-SHARED") for model in models)
    )


def card_of(fact: NodeFact, index: int) -> tuple[str, int]:
    """Model and MiB of one GPU: of its card, else of the label."""
    for (number, mib), model in zip(fact.cards, fact.card_models, strict=True):
        if number == index:
            return model, mib
    return fact.labels.get(GPU_PRODUCT_LABEL, ""), fact.gpu_mib or 0


def card_suits(fact: NodeFact, index: int, request: PlacementRequest) -> bool:
    """Whether one GPU is of a kind that the pod takes, and has the memory that is written into the pod."""
    model, mib = card_of(fact, index)
    label, said = fact.labels.get(GPU_PRODUCT_LABEL, ""), fact.gpu_mib or 0
    is_part = request.share.fraction.slices_on_each < request.share.fraction.slices_per_gpu
    near = abs(mib - said) * 32 < said
    is_kept = request.demands.same_model and request.accounting.owner
    if is_kept and not ((near or not said) and label in ("", model, f"{model}-SHARED")):
        return False
    if request.share.writes_limits and is_part and mib < said and not near:
        return False
    patterns = request.demands.kinds.models
    named = not patterns or any(model.startswith(each.rstrip("*")) for each in patterns)
    return named and mib >= request.demands.kinds.min_mib


def labels_suit(fact: NodeFact, request: PlacementRequest) -> bool:
    """Whether the labels say a kind of GPU that the pod takes."""
    kinds, product = request.demands.kinds, fact.labels.get(GPU_PRODUCT_LABEL)
    named = product is not None and any(product.startswith(each.rstrip("*")) for each in kinds.models)
    return (named or not kinds.models) and (fact.gpu_mib or 0) >= kinds.min_mib


def card_choices(fact: NodeFact, request: PlacementRequest) -> list[set[int]]:
    """The GPUs of a node of which the pod may have some together: with equal cards where it must."""
    is_part = request.share.fraction.slices_on_each < request.share.fraction.slices_per_gpu
    is_written = request.share.writes_limits and is_part
    if request.share.mode == "pooled":
        fits = labels_are_true(fact) or all(card_suits(fact, index, request) for index, _ in fact.cards)
        return [set()] if fits and _labels_suit_if_asked(fact, request, is_written=is_written) else []
    every = {index for index, _ in fact.gpus}
    if not _labels_suit_if_asked(fact, request, is_written=is_written):
        return []
    if labels_are_true(fact):
        return [every] if len(every) >= request.share.fraction.gpus else []
    kinds = [card_of(fact, index) for index in every]
    frequent = sorted(set(kinds), key=lambda kind: (-kinds.count(kind), kind))[:4]
    taken = {index for index in every if card_suits(fact, index, request)}
    equal = request.share.fraction.parts != 1 and not request.share.writes_limits
    asks = request.demands.kinds.models or request.demands.kinds.min_mib or is_written or equal
    if asks or (request.demands.same_model and request.accounting.owner):
        taken = {index for index in taken if card_of(fact, index) in frequent}
    sizes = {card_of(fact, index)[1] for index in taken} if equal else {0}
    choices = [{index for index in taken if not equal or card_of(fact, index)[1] == mib} for mib in sizes]
    return [cards for cards in choices if len(cards) >= request.share.fraction.gpus]


def _labels_suit_if_asked(fact: NodeFact, request: PlacementRequest, *, is_written: bool) -> bool:
    """Labels are asked where they are true, where no host can be named, and where their MiB is a limit."""
    is_pooled, least = request.share.mode == "pooled", request.demands.kinds.min_mib
    asked = labels_are_true(fact) or is_pooled or (is_written and least)
    return not asked or labels_suit(fact, request)


def admits(fact: NodeFact, answer: Placement, request: PlacementRequest) -> bool:
    """Whether the scheduler may bind the pod to a node, by all that is written into it of labels."""
    kinds, labels = request.demands.kinds, fact.labels
    host = labels[HOSTNAME_LABEL]
    if answer.memory_values and labels.get(GPU_MEMORY_LABEL) not in answer.memory_values:
        return False
    if answer.model is not None and labels.get(GPU_PRODUCT_LABEL) != answer.model:
        return False
    if answer.hosts:
        return host in answer.hosts
    if kinds.models and labels.get(GPU_PRODUCT_LABEL) not in answer.models:
        return False
    return (fact.gpu_mib or 0) >= kinds.min_mib and host not in answer.other_hosts


def is_kept_to(model: tuple[str | None, int | None], fact: NodeFact) -> bool:
    """Whether a node is of the GPU model that an owner's pods have, as far as that is known."""
    product, mib = model
    return product in (None, fact.labels.get(GPU_PRODUCT_LABEL)) and (
        mib is None or fact.labels.get(GPU_MEMORY_LABEL) == str(mib)
    )


def model_of_owner(
    owner: str, slow: dict[str, SlowNode], waiting: list[PodFact]
) -> tuple[str | None, int | None] | None:
    """The GPU model of an owner's pods: of those on nodes, else of those that wait."""
    for name in sorted(slow):
        if slow[name].shares_of(owner):
            fact = slow[name].fact
            return fact.labels.get(GPU_PRODUCT_LABEL), fact.gpu_mib
    bound = []
    for claim in waiting:
        values = claim.memory_values or ()
        if claim.owner == owner and claim.takes and len(values) <= 1 and (values or claim.model):
            bound.append((claim.model, int(values[0]) if values else None))
    return min(bound, key=repr, default=None)


def has_room(node: SlowNode, request: PlacementRequest) -> bool:
    """Fit right now."""
    if not node.fact.usable:
        return False
    is_part = request.share.fraction.slices_on_each < request.share.fraction.slices_per_gpu
    if node.fact.agent == "away" and not request.share.writes_limits and is_part:
        return False
    if (
        node.fact.cpu_milli - node.cpu < request.share.cpu_milli
        or node.fact.memory_bytes - node.memory < request.share.memory_bytes
    ):
        return False
    if request.share.mode == "pooled":
        return on_one_card(node, request)
    free = node.free()
    return any(_roomy(free, cards, request) for cards in card_choices(node.fact, request))


def cards_of_pool(node: SlowNode) -> list[int] | None:
    """Slices left on each card of a pool; None where nobody tells."""
    held = [slices for _, slices in node.fact.pool_cards]
    new = node.pooled - sum(held)
    if not held or new < 0:
        return None
    left = [8 - slices for slices in held]
    given: list[int] = []
    for claim in reversed(node.claims):
        given.insert(0, max(0, min(dict(claim.takes).get(POOL, 0), new - sum(given))))
    for slices in given:
        _best_fit(left, slices)
    return left


def _best_fit(left: list[int], slices: int) -> bool:
    """The agent's rule: the fullest card that has room; else what the freest have."""
    for room in sorted(left):
        if room >= slices:
            left[left.index(room)] -= slices
            return True
    while slices and max(left):
        most = max(left)
        taken = min(most, slices)
        left[left.index(most)] -= taken
        slices -= taken
    return False


def on_one_card(node: SlowNode, request: PlacementRequest) -> bool:
    """Whether each GPU's part of a pod of mode pooled finds room on one card."""
    left, fraction = cards_of_pool(node), request.share.fraction
    if left is None or len(left) == 1:
        return (node.fact.pooled - node.pooled if left is None else left[0]) >= fraction.slices
    return all(_best_fit(left, fraction.slices_on_each) for _ in range(fraction.gpus))


def would_span(node: SlowNode, request: PlacementRequest) -> bool:
    """Whether the scheduler would bind a pod of mode pooled here now, only for the agent to refuse it."""
    left = cards_of_pool(node) or []
    return len(left) > 1 and sum(left) >= request.share.fraction.slices and not on_one_card(node, request)


def _roomy(free: dict[int, int], cards: set[int], request: PlacementRequest) -> bool:
    fitting = [index for index in cards if free.get(index, -1) >= request.share.fraction.slices_on_each]
    return len(fitting) >= request.share.fraction.gpus
