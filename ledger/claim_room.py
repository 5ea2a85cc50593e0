"""Which offered cards the claim of a waiting pod could take, and how much of them is free, as shown to users.

The scheduler also compares CPU, memory and everything else that a pod needs of its node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kube.dra import SHARES_OF_CARD
from ledger.claimed_cards import CardUse, ClaimedCards
from modes.gpu_kinds import GpuKinds

MAX_NAMED = 3
"""Cards or nodes that are named as left out."""


@dataclass(frozen=True, slots=True)
class ClaimAlternative:
    """One of the alternatives that a claim accepts."""

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
        mib, model = use.card.mib, use.card.model.replace(" ", "-")
        least = self.shares[0][0] if self.shares else self.memory_mib
        is_size = mib == self.card_mib if self.card_mib is not None else mib >= least
        return is_size and mib >= kinds.min_mib and kinds.takes_model(model)

    def has_room(self, use: CardUse) -> bool:
        """Whether the amount is free on a card."""
        if self.is_whole:
            return not use.claims
        of_sizes = [share for least, share in self.shares if least <= use.card.mib]
        share = of_sizes[-1] if of_sizes else self.share
        if not share:
            return use.free_mib >= self.memory_mib
        return use.free_mib > 0 and use.claimed_share + share <= SHARES_OF_CARD

    def is_more(self, free: int, card_mib: int, other_free: int, other_mib: int) -> bool:
        """Whether so many free MiB of a card are more than those of another; of shares, the larger part."""
        return free * other_mib > other_free * card_mib if self.share and other_free else free > other_free


@dataclass(frozen=True, slots=True)
class AlternativeRoom:
    """The cards for one alternative."""

    alternative: ClaimAlternative
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


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A card, or all cards of a node, that new pods do not get."""

    node: str
    device: str
    """Empty for all cards of the node."""
    reason: str


@dataclass(frozen=True, slots=True)
class ClaimRoom:
    """Cards for a claim, by alternative in the order of its preference."""

    alternatives: tuple[AlternativeRoom, ...]
    left_out: tuple[LeftOut, ...] = ()
    """The first MAX_NAMED."""
    more_left_out: int = 0
    claims_are_known: bool = True
    """Whether it is known what claims hold: if not, nothing says how much is free."""

    @property
    def has_room(self) -> bool:
        """Whether a node has room for the claim now."""
        return any(each.nodes_with_room for each in self.alternatives)


def room_of(
    driver: str,
    alternatives: Iterable[ClaimAlternative],
    kinds: GpuKinds,
    cards: ClaimedCards,
    why_not: Callable[[str], str],
) -> ClaimRoom:
    """Search the offered cards for a claim.

    Args:
        driver: the driver that the claim names.
        alternatives: its alternatives.
        kinds: kinds of GPU that the pod accepts.
        cards: offers and claims.
        why_not: why the pod cannot run on a node, by its name; empty if it can.
    """
    search = ClaimRoomSearch(driver, alternatives, kinds, why_not)
    for node in sorted(cards.nodes()):
        search.look_at(node, cards.on(node))
    return search.found()


class ClaimRoomSearch:
    """Searches the cards of nodes, one node after the other in the order of their names.

    Its arguments are those of `room_of`.
    """

    def __init__(
        self,
        driver: str,
        alternatives: Iterable[ClaimAlternative],
        kinds: GpuKinds,
        why_not: Callable[[str], str],
    ) -> None:
        self._driver = driver
        self._kinds = kinds
        self._why_not = why_not
        self._rooms = [AlternativeRoom(alternative) for alternative in alternatives]
        self._left_out: list[LeftOut] = []
        self._more_left_out = 0

    def look_at(self, node: str, uses: Iterable[CardUse]) -> None:
        """Add the cards of a node, if the claim accepts some of them."""
        wanted = [use for use in uses if use.key.driver == self._driver and self._is_accepted(use)]
        if not wanted:
            return
        why_not = self._why_not(node)
        self._rooms = [self._with(room, node, wanted, is_usable=not why_not) for room in self._rooms]
        if why_not:
            self._leave_out(LeftOut(node, "", why_not))
            return
        for use in wanted:
            if use.card.taint:
                self._leave_out(LeftOut(node, use.card.device, f"taint {use.card.taint}"))

    def found(self) -> ClaimRoom:
        """Return what was found so far."""
        return ClaimRoom(tuple(self._rooms), tuple(self._left_out), self._more_left_out)

    def _is_accepted(self, use: CardUse) -> bool:
        return any(room.alternative.accepts(use, self._kinds) for room in self._rooms)

    def _leave_out(self, left_out: LeftOut) -> None:
        if len(self._left_out) < MAX_NAMED:
            self._left_out.append(left_out)
        else:
            self._more_left_out += 1

    def _with(
        self, room: AlternativeRoom, node: str, uses: list[CardUse], *, is_usable: bool
    ) -> AlternativeRoom:
        alternative = room.alternative
        accepted = [use for use in uses if alternative.accepts(use, self._kinds)]
        usable = [use for use in accepted if is_usable and not use.card.taint]
        with_room = sum(map(alternative.has_room, usable))
        most = room.most_free_mib, room.most_free_of, room.most_free_on
        for use in usable:
            if alternative.is_more(use.free_mib, use.card.mib, *most[:2]):
                most = use.free_mib, use.card.mib, node
        return AlternativeRoom(
            alternative,
            room.cards + len(accepted),
            room.usable + len(usable),
            room.with_room + with_room,
            room.nodes_with_room + (with_room >= alternative.count),
            *most,
        )
