"""The cards that DRA drivers offer, with the pods whose claims hold parts of them, as users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def cards_of_node(
    cards: ClaimedCards, node: str, queue_of: Callable[[PodKey], str] = lambda _: "", *, takes_pods: bool
) -> Iterator[CardView]:
    """Yield the cards of a node, by number; `queue_of` returns the key of a pod's ClearML queue."""
    uses = cards.on(node)
    most = max(1, MAX_SHARES // max(1, len(uses)))
    for use in uses:
        card, held = use.card, list[CardShare]()
        for claim in cards.claims_on(use.key):
            mib = sum([part.mib_of(card.mib) for part in claim.parts if part.card == use.key])
            queue = queue_of((claim.namespace, claim.pod))
            held.append(CardShare(claim.namespace, claim.name, claim.pod, mib, queue))
        yield CardView(
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
            shares=tuple(
                nsmallest(most, held, key=lambda each: (-each.memory_mib, each.namespace, each.claim))
            ),
        )


def free_mib(use: CardUse, *, takes_pods: bool) -> int:
    """Return the MiB of a card for new claims: none of a tainted one, or of a node that takes no pods."""
    return use.free_mib if takes_pods and not use.card.taint else 0
