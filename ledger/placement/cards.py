"""The GPUs of a node that a pod accepts, if the node's agent reports what each card is.

A node's labels describe one kind of card. A node is odd if its agent reports cards that differ from each
other or from the labels; the labels of all other nodes are true. Pods that accept any card accept any card of
an odd node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kube.names import GPU_PRODUCT_LABEL
from ledger.placement.prices import Prices, base_score
from ledger.placement_request import PlacementRequest
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds

_TOLERANCE = 32
"""Cards match a label if their MiB differ by less than one part in this number."""
_SHARED = "-SHARED"
"""Suffix of the model label on nodes with time slicing."""
CardSet = frozenset[int]
"""Indices of GPUs."""
CardSets = tuple[CardSet, ...]
"""Sets of GPUs: a pod must get all of its GPUs from one set."""


class Card(NamedTuple):
    """Model and memory of one GPU."""

    model: str
    mib: int


class Layout(NamedTuple):
    """The cards of an odd node, and what its labels state."""

    cards: tuple[tuple[int, Card], ...]
    """Each card by its index."""
    label: Card
    """An empty model or 0 MiB if the label is missing."""


class CardDemand(NamedTuple):
    """A pod's demands on each card."""

    kinds: GpuKinds
    gpus: int
    is_bound: bool
    """Whether MiB by the label's memory are written into the pod: the card must have at least that memory."""
    keeps_model: bool
    """Whether the card must have the model that the label names, because all pods of the owner have it."""
    are_equal: bool
    """Whether all its GPUs must have the same MiB, because the agent gives a container only one limit."""
    chooses: bool
    """Whether we choose the GPUs; otherwise the kubelet may use any."""
    size: Fraction | None
    """The requested MiB as slices, which must be the same on the card; None if the pod has a limit in MiB."""


def layout(node: NodeFact) -> Layout | None:
    """Return the cards of an odd node; None if the node's labels are true."""
    if not node.cards:
        return None
    label = Card(node.labels.get(GPU_PRODUCT_LABEL) or "", node.gpu_mib or 0)
    models = node.card_models if len(node.card_models) == len(node.cards) else ("",) * len(node.cards)
    # A card of unknown model counts as the label's.
    cards = [
        (index, Card(model or label.model, mib))
        for (index, mib), model in zip(node.cards, models, strict=True)
    ]
    is_uniform = len({mib for _, mib in node.cards}) == 1
    if is_uniform and all(_is_as_said(card, label) for _, card in cards):
        return None
    return Layout(tuple(cards), label)


def _is_as_said(card: Card, label: Card) -> bool:
    """Whether a card matches a label."""
    return label.model in {card.model, card.model + _SHARED} and _is_as_large(card.mib, label.mib)


def _is_as_large(mib: int, said: int) -> bool:
    return abs(mib - said) * _TOLERANCE < said


def demand(request: PlacementRequest) -> CardDemand | None:
    """Return a pod's demands on each card; None if it accepts any."""
    mode, fraction, kinds = request.share.mode_type, request.share.fraction, request.demands.kinds
    if mode.gives_instances:
        return None
    is_bound = request.share.is_bound_by_memory
    are_equal = fraction.parts != 1 and not is_bound
    keeps_model = request.keeps_model
    size = fraction if fraction.is_of_memory and not is_bound else None
    if kinds == EVERY_KIND and not (is_bound or are_equal or keeps_model or size):
        return None
    return CardDemand(kinds, fraction.gpus, is_bound, keeps_model, are_equal, mode.chooses_gpus, size)


def card_sets(node: NodeFact, wanted: CardDemand | None) -> CardSets | None:
    """Return the sets of GPUs that a pod may use on a node; None for any GPU, empty if there are too few."""
    if wanted is None or (found := layout(node)) is None:
        return None
    known = dict(found.cards)
    if not wanted.chooses:
        return None if all(_takes(card, found.label, wanted) for card in known.values()) else ()
    cards = {index: known.get(index, found.label) for index, _ in node.gpus}
    fitting = {index: card for index, card in cards.items() if _takes(card, found.label, wanted)}
    mib = {card.mib for card in fitting.values()}
    if len(fitting) == len(cards) and not (wanted.are_equal and len(mib) > 1):
        return None
    sets = [frozenset(fitting)]
    if wanted.are_equal:
        sets = [frozenset(index for index in fitting if fitting[index].mib == each) for each in sorted(mib)]
    return tuple([each for each in sets if len(each) >= wanted.gpus])


def _takes(card: Card, label: Card, wanted: CardDemand) -> bool:
    if wanted.kinds.min_mib > card.mib or not wanted.kinds.takes_model(card.model):
        return False
    if wanted.is_bound and card.mib < label.mib and not _is_as_large(card.mib, label.mib):
        return False
    # `keep_to` does not require a label that is missing either.
    kept = Card(label.model or card.model, label.mib or card.mib)
    if wanted.keeps_model and not _is_as_said(card, kept):
        return False
    return wanted.size is None or wanted.size.on_card(card.mib) == wanted.size


def best_set(
    free: Mapping[int, int], sets: CardSets, fraction: Fraction, prices: Prices
) -> tuple[int, CardSet] | None:
    """Return a node's score without CPU, and the set of its `free` GPUs that gives it; None without room."""
    best: tuple[int, CardSet] | None = None
    for each in sets:
        others = [slices for index, slices in free.items() if index not in each]
        value = base_score([free[index] for index in free if index in each], fraction, prices, others)
        if value is not None and (best is None or value > best[0]):
            best = value, each
    return best
