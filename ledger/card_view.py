"""The cards that DRA drivers offer, with the pods whose claims hold parts of them, as users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest

from ledger.claimed_cards import CardUse, ClaimedCards
from modes.facts import PodKey

MAX_SHARES = 512
"""Shares of the cards of one node that are listed, equally many for each card."""


@dataclass(frozen=True, slots=True)
class CardShare:
    """What one claim holds of a card."""

    namespace: str
    claim: str
    pod: str
    """Empty if the claim is reserved for no pod."""
    memory_mib: int
    queue: str = ""
    """Key of the pod's ClearML queue; empty for pods without one, or if pods are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardView:
    """One card."""

    node: str
    driver: str
    device: str
    uuid: str
    model: str
    taint: str
    """What keeps pods away from it; empty if nothing does."""
    memory_mib: int
    claimed_mib: int
    free_mib: int
    """MiB for new claims: none of a tainted card, or of a node that takes no pods."""
    claims: int
    shares: tuple[CardShare, ...]
    """The largest ones, the largest first; `claims` counts those that are not listed too."""

    @property
    def is_whole(self) -> bool:
        """Whether a claim can take all of it."""
        return self.free_mib == self.memory_mib > 0


def _no_queue(_pod: PodKey) -> str:
    return ""


def card_views(cards: ClaimedCards) -> list[CardView]:
    """Return all cards of nodes, by node and number; whether the nodes take pods is not known."""
    return [card for node in sorted(cards.nodes()) for card in cards_of_node(cards, node, takes_pods=True)]


def cards_of_node(
    cards: ClaimedCards, node: str, queue_of: Callable[[PodKey], str] = _no_queue, *, takes_pods: bool
) -> tuple[CardView, ...]:
    """Return the cards of one node, by number.

    Args:
        cards: offers and claims.
        node: the node's name.
        queue_of: returns the key of a pod's ClearML queue.
        takes_pods: whether the node takes new pods.
    """
    uses = cards.on(node)
    most = max(1, MAX_SHARES // max(1, len(uses)))
    return tuple(
        [
            _view(
                node, use, nsmallest(most, _shares(cards, use, queue_of), key=_order), takes_pods=takes_pods
            )
            for use in uses
        ]
    )


def _shares(cards: ClaimedCards, use: CardUse, queue_of: Callable[[PodKey], str]) -> Iterator[CardShare]:
    for claim in cards.claims_on(use.key):
        mib = sum([part.mib_of(use.card.mib) for part in claim.parts if part.card == use.key])
        yield CardShare(claim.namespace, claim.name, claim.pod, mib, queue_of((claim.namespace, claim.pod)))


def free_mib(use: CardUse, *, takes_pods: bool) -> int:
    """Return the MiB of a card for new claims: none of a tainted one, or of a node that takes no pods."""
    return use.free_mib if takes_pods and not use.card.taint else 0


def sums(cards: Iterable[CardView]) -> tuple[int, int]:
    """Return the free MiB and all MiB of some cards."""
    pairs = [(card.free_mib, card.memory_mib) for card in cards]
    return sum([free for free, _ in pairs]), sum([mib for _, mib in pairs])


def _view(node: str, use: CardUse, shares: Iterable[CardShare], *, takes_pods: bool) -> CardView:
    card = use.card
    return CardView(
        node=node,
        driver=use.key.driver,
        device=card.device,
        uuid=card.uuid,
        model=card.model,
        taint=card.taint,
        memory_mib=card.mib,
        claimed_mib=use.claimed_mib,
        free_mib=free_mib(use, takes_pods=takes_pods),
        claims=use.claims,
        shares=tuple(shares),
    )


def _order(share: CardShare) -> tuple[int, str, str]:
    return -share.memory_mib, share.namespace, share.claim
