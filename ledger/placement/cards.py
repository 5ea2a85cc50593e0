"""Which GPUs of a node a pod takes, where the node's agent says what card each is.

The labels of a node speak for one kind of card. A node is odd where its agent says that cards differ from
each other, or from the labels; of every other node the labels are true. Pods that take any card take any of
an odd node too.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from kube.names import GPU_PRODUCT_LABEL
from ledger.accounts import NodeAccount
from ledger.facts import NodeFact
from ledger.placement_request import PlacementRequest
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from modes.packing import SlicePrices, score_among

MAX_KINDS = 4
"""Kinds of card of one node that are told apart, the most frequent: others are for pods that take any."""
_TOLERANCE = 32
"""A card whose MiB differ from the label's by less than such a part is what the label says."""
_SHARED = "-SHARED"
"""Ends the label of a model that a device plugin divides by time slicing."""
CardSet = frozenset[int]
"""Indices of GPUs."""
CardSets = tuple[CardSet, ...]
"""GPUs of a node that a pod may have together, by index: those of one of the sets."""


class Card(NamedTuple):
    """What one GPU is."""

    model: str
    mib: int


class Layout(NamedTuple):
    """What the cards of an odd node are, and what its labels say."""

    cards: tuple[tuple[int, Card], ...]
    """By index."""
    label: Card
    """Empty text and 0 where a label is missing."""


class CardDemand(NamedTuple):
    """What a pod demands of each card."""

    kinds: GpuKinds
    gpus: int
    is_bound: bool
    """MiB of its share of what the label says are written into it: the card must have as much memory."""
    keeps_model: bool
    """Its owner's pods have GPUs of one model, which a label names: the card must be of that."""
    are_equal: bool
    """Its GPUs must have the same MiB: the agent limits one container by one figure."""
    chooses: bool
    """Whether it gets GPUs of our choice; else the kubelet may give it any."""
    size: Fraction | None
    """MiB that are asked for without a limit in the pod, as the slices that they must come to on the card."""


def layout(node: NodeFact) -> Layout | None:
    """Return what the cards of an odd node are; None of a node of which the labels are true."""
    if not node.cards:
        return None
    label = Card(node.labels.get(GPU_PRODUCT_LABEL) or "", node.gpu_mib or 0)
    return _layout(node.cards, node.card_models, label)


@lru_cache(maxsize=4096)
def _layout(cards: tuple[tuple[int, int], ...], models: tuple[str, ...], label: Card) -> Layout | None:
    models = models if len(models) == len(cards) else ("",) * len(cards)
    # A card whose model nobody tells is of the label's.
    found = [
        (index, Card(model or label.model, mib)) for (index, mib), model in zip(cards, models, strict=True)
    ]
    is_uniform = len({mib for _, mib in cards}) == 1
    if is_uniform and all(_is_as_said(card, label) for _, card in found):
        return None
    return Layout(tuple(found), label)


def _is_as_said(card: Card, label: Card) -> bool:
    """Whether a card is what a label says."""
    return label.model in {card.model, card.model + _SHARED} and _is_as_large(card.mib, label.mib)


def _is_as_large(mib: int, said: int) -> bool:
    return abs(mib - said) * _TOLERANCE < said


def demand(request: PlacementRequest) -> CardDemand | None:
    """Return what a pod demands of each card; None where it takes any."""
    mode, fraction, kinds = request.share.mode_type, request.share.fraction, request.demands.kinds
    if mode.gives_instances:
        return None
    is_bound = request.share.is_bound_by_memory
    are_equal = fraction.parts != 1 and not is_bound
    keeps_model = request.keeps_model
    size = fraction if fraction.mib and not is_bound else None
    if kinds == EVERY_KIND and not (is_bound or are_equal or keeps_model or size):
        return None
    return CardDemand(kinds, fraction.gpus, is_bound, keeps_model, are_equal, mode.chooses_gpus, size)


def card_sets(node: NodeFact, wanted: CardDemand | None) -> CardSets | None:
    """Return the GPUs of a node that a pod may have; None for any, no set where there are too few."""
    if wanted is None or (found := layout(node)) is None:
        return None
    return _sets(found, wanted, tuple([index for index, _ in node.gpus]))


@lru_cache(maxsize=4096)
def _sets(found: Layout, wanted: CardDemand, indices: tuple[int, ...]) -> CardSets | None:
    known = dict(found.cards)
    if not wanted.chooses:
        return None if all(_takes(card, found.label, wanted) for card in known.values()) else ()
    cards = {index: known.get(index, found.label) for index in indices}
    fitting = {
        index: cards[index] for index in _of_told_kinds(cards) if _takes(cards[index], found.label, wanted)
    }
    mib = {card.mib for card in fitting.values()}
    if len(fitting) == len(cards) and not (wanted.are_equal and len(mib) > 1):
        return None
    if not wanted.are_equal:
        sets = [frozenset(fitting)]
    else:
        sets = [
            frozenset(index for index, card in fitting.items() if card.mib == each) for each in sorted(mib)
        ]
    return tuple([each for each in sets if len(each) >= wanted.gpus])


def _of_told_kinds(cards: dict[int, Card]) -> list[int]:
    counts = Counter(cards.values())
    told = sorted(counts, key=lambda card: (-counts[card], card))[:MAX_KINDS]
    return [index for index, card in cards.items() if card in told]


def _takes(card: Card, label: Card, wanted: CardDemand) -> bool:
    if wanted.kinds.min_mib > card.mib or not wanted.kinds.takes_model(card.model):
        return False
    if wanted.is_bound and card.mib < label.mib and not _is_as_large(card.mib, label.mib):
        return False
    if wanted.keeps_model and not _is_as_said(card, label):
        return False
    return wanted.size is None or wanted.size.on_card(card.mib) == wanted.size


def among(account: NodeAccount, chosen: CardSet) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the free slices of some GPUs of a node, and of its others, each sorted, but cordoned ones."""
    some: list[int] = []
    others: list[int] = []
    for index, slices in account.left.items():
        (some if index in chosen else others).append(max(0, slices))
    return tuple(sorted(some)), tuple(sorted(others))


def best_set(
    account: NodeAccount, sets: CardSets, fraction: Fraction, prices: SlicePrices
) -> tuple[int, CardSet] | None:
    """Return the score of a node without CPU, and the GPUs that give it; None where none have room."""
    best: tuple[int, CardSet] | None = None
    for each in sets:
        value = score_among(*among(account, each), fraction, prices)
        if value is not None and (best is None or value > best[0]):
            best = value, each
    return best
