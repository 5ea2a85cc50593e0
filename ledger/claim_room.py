"""Which offered cards the claim of a waiting pod could take, and what is free of them, for users."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kube.dra import SHARES_OF_CARD
from ledger.claimed_cards import CardUse, ClaimedCards
from modes.gpu_kinds import GpuKinds

MAX_NAMED = 3
"""Cards or nodes that are named as left out."""


@dataclass(frozen=True, slots=True)
class ClaimAsk:
    """What a claim asks for."""

    memory_mib: int = 0
    """0 if a share of the card is asked for."""
    share: int = 0
    """Parts of which a card has SHARES_OF_CARD; all of them for the whole card."""
    shares: tuple[tuple[int, int], ...] = ()
    """The share that the MiB are of a card with so many MiB or more, the smallest cards first.

    Empty of drivers that offer memory."""
    card_mib: int | None = None
    """MiB of the cards that it may be taken of; None for any."""
    count: int = 1
    """Number of different cards of one node."""

    @property
    def is_whole(self) -> bool:
        """Whether it asks for the whole card."""
        return self.share == SHARES_OF_CARD

    def accepts(self, use: CardUse, kinds: GpuKinds) -> bool:
        """Whether a card is of the size and kind, whatever is free on it."""
        model, mib = use.card.kind
        least = self.shares[0][0] if self.shares else self.memory_mib
        is_size = mib == self.card_mib if self.card_mib is not None else mib >= least
        return is_size and mib >= kinds.min_mib and kinds.takes_model(model)

    def may_fit(self, free_mib: int, free_share: int) -> bool:
        """Whether a card can have room if at most so many MiB, and this part of SHARES_OF_CARD, are free."""
        share = min([share for _, share in self.shares], default=self.share)
        return free_share >= share if share else free_mib >= self.memory_mib

    def fit(self, use: CardUse) -> int:
        """Return how many times the amount is free on a card."""
        if self.is_whole:
            return int(not use.claims)
        of_sizes = [share for least, share in self.shares if least <= use.card.mib]
        share = of_sizes[-1] if of_sizes else self.share
        if not share:
            return use.free_mib // max(1, self.memory_mib)
        return (SHARES_OF_CARD - use.claimed_share) // share if use.free_mib > 0 else 0

    def is_more(self, free: int, card_mib: int, other_free: int, other_mib: int) -> bool:
        """Whether so many free MiB of a card are more than those of another; of shares, the larger part."""
        return free * other_mib > other_free * card_mib if self.share and other_free else free > other_free


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A card, or all cards of a node, that new pods do not get."""

    node: str
    device: str
    """Empty for all cards of the node."""
    reason: str


@dataclass(slots=True)
class ClaimRoom:
    """The cards for a claim."""

    cards: int = 0
    """Cards of the size and kind."""
    usable: int = 0
    """Those that are not left out."""
    with_room: int = 0
    """Those of them with the amount free."""
    nodes_with_room: int = 0
    """Nodes with enough such cards."""
    most_free_mib: int = 0
    """The most that is free of a usable card; for a share, of the card with the largest part free."""
    most_free_of: int = 0
    """MiB of that card."""
    most_free_on: str = ""
    """Node of that card."""
    left_out: tuple[LeftOut, ...] = ()
    """The first MAX_NAMED."""
    more_left_out: int = 0
    claims_are_known: bool = True
    """Whether it is known what claims hold: if not, nothing says how much is free."""
    fit: int = 0
    """So many such claims have room together."""

    @property
    def has_room(self) -> bool:
        """Whether a node has room for the claim now."""
        return self.nodes_with_room > 0


def room_of(
    driver: str, asked: ClaimAsk, kinds: GpuKinds, cards: ClaimedCards, why_not: Callable[[str], str]
) -> ClaimRoom:
    """Search all offered cards for a claim; the arguments are those of `ClaimRoomSearch`."""
    search = ClaimRoomSearch(driver, asked, kinds, why_not)
    for node in sorted(cards.nodes()):
        search.look_at(node, cards.on(node))
    return search.found


class ClaimRoomSearch:
    """Searches the cards of nodes, by their names; `why_not` says why the pod cannot run on one, if so."""

    def __init__(self, driver: str, asked: ClaimAsk, kinds: GpuKinds, why_not: Callable[[str], str]) -> None:
        self._driver = driver
        self._asked = asked
        self._kinds = kinds
        self._why_not = why_not
        self.found = ClaimRoom()
        """What was found so far."""

    def look_at(self, node: str, uses: Iterable[CardUse]) -> None:
        """Add the cards of a node, if the claim accepts some of them."""
        of_driver = [use for use in uses if use.key.driver == self._driver]
        accepted = [use for use in of_driver if self._asked.accepts(use, self._kinds)]
        if not accepted:
            return
        why_not = self._why_not(node)
        usable = [use for use in accepted if not (why_not or use.card.taint)]
        tainted = [use.card for use in accepted if use.card.taint]
        left_out = [LeftOut(node, card.device, f"taint {card.taint}") for card in tainted]
        self._leave_out([LeftOut(node, "", why_not)] if why_not else left_out)
        found, fit = self.found, sorted(map(self._asked.fit, usable), reverse=True)
        with_room, count = sum(map(bool, fit)), self._asked.count
        found.cards += len(accepted)
        found.usable += len(usable)
        found.with_room += with_room
        found.nodes_with_room += with_room >= count
        found.fit += sum(fit[count - 1 :: count])
        for use in usable:
            if self._asked.is_more(use.free_mib, use.card.mib, found.most_free_mib, found.most_free_of):
                found.most_free_mib, found.most_free_of = use.free_mib, use.card.mib
                found.most_free_on = node

    def _leave_out(self, cards: list[LeftOut]) -> None:
        named = (*self.found.left_out, *cards)
        self.found.left_out = named[:MAX_NAMED]
        self.found.more_left_out += len(named[MAX_NAMED:])
