"""Explains the claim of a pod in mode dra: what it asks for, what it holds, and which cards have room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kube.dra import SHARES_OF_CARD, part_of_card
from ledger.claim_room import ClaimAsk, ClaimRoom
from ledger.claimed_cards import ClaimedPart
from ledger.quoted_text import closed, quoted

ClaimState = Literal["allocated", "waiting", "not created", "deleted", "no template", "unread"]
"""`deleted` and `no template` were, or should have been, there. `unread`: the user may not read them."""

_MISSING: dict[ClaimState, tuple[str, str]] = {
    "not created": (
        "Kubernetes has not created its claim yet",
        "Kubernetes has not created its ResourceClaim yet: ask again in a few seconds.",
    ),
    "deleted": (
        "its claim was deleted",
        "Its ResourceClaim {name} was deleted: ask again in a few seconds, or {again}.",
    ),
    "no template": (
        "the template of its claim does not exist",
        (
            "Its ResourceClaimTemplate {template} does not exist, so Kubernetes cannot create its claim."
            " Unless the controller recreates it within a minute, {again}."
        ),
    ),
    "unread": (
        "its claim could not be read",
        "Its ResourceClaim could not be read, so it is not known which cards it could take.",
    ),
}
"""In a few words, and as a sentence, why there is no claim to tell of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareClaim:
    """What is known of the claim of a pod's share."""

    state: ClaimState
    template: str = ""
    """Name of its ResourceClaimTemplate."""
    name: str = ""
    """Name of the ResourceClaim; empty before Kubernetes has created it."""
    driver: str = ""
    """Name of the driver; empty if neither claim nor template could be read."""
    asked: ClaimAsk | None = None
    """What it asks for; None if that is unknown."""
    parts: tuple[ClaimedPart, ...] = ()
    """What it holds."""
    room: ClaimRoom | None = None
    """Cards that it could take, while it waits; None if the offered cards could not be read."""
    reported: str | None = None
    """What Kubernetes reported of a claim that it could not create, or the kubelet not prepare."""


def request_of(claim: ShareClaim) -> str:
    """Return what a claim asks for."""
    if claim.asked is None:
        return f"a claim by template {quoted(claim.template)}"
    return f"a claim of {_asked(claim.asked)}, offered by driver {quoted(claim.driver)}"


def held_by(claim: ShareClaim) -> str:
    """Return what a claim holds of which cards; empty if it is not known."""
    return " and ".join([f"{_amount(part)} {quoted(part.card.device)}" for part in claim.parts])


def waiting_claim(claim: ShareClaim, again: str) -> Iterator[str]:
    """Yield sentences on a claim that has no card yet; `again` says how to replace its pod."""
    if claim.state == "allocated":
        pools = " and ".join(sorted({quoted(part.card.pool) for part in claim.parts}))
        yield f"Its claim holds {held_by(claim)} in pool {pools}: the scheduler is binding its node."
    elif claim.state == "waiting":
        yield from _waits(claim)
    else:
        template, name = quoted(claim.template), quoted(claim.name)
        yield _MISSING[claim.state][1].format(template=template, name=name, again=again)
    if claim.reported is not None:
        yield f"Kubernetes reports: {closed(claim.reported)}"


def waiting_cause(claim: ShareClaim) -> str:
    """Return in a few words why a claim has no card; the same for all claims of the same."""
    if claim.state == "allocated":
        return "the scheduler is binding its node"
    if claim.state != "waiting":
        return _MISSING[claim.state][0]
    return f"{_asked(claim.asked) if claim.asked is not None else 'a claim'}: {_lack(claim.room)}"


def _lack(room: ClaimRoom | None) -> str:
    if room is None or not room.claims_are_known:
        return "it is not known which cards have room"
    if room.has_room:
        return "a node has room, the scheduler tries again or has another reason"
    if not room.cards:
        return "no such card is offered"
    if not room.usable:
        return "no such card can be used"
    return "too few of one node have room" if room.with_room else "none has enough room"


def _asked(asked: ClaimAsk) -> str:
    size = f"with {asked.card_mib} MiB" if asked.card_mib is not None else ""
    each = part_of_card(asked.share) if asked.share else f"{asked.memory_mib} MiB"
    if asked.is_whole:
        what = "1 whole card" if asked.count == 1 else f"{asked.count} whole cards of one node"
    elif asked.count == 1:
        what = f"{each} of a card"
    else:
        what = f"{each} of each of {asked.count} cards of one node"
    return f"{what} {size}".rstrip()


def _amount(part: ClaimedPart) -> str:
    if part.share == SHARES_OF_CARD:
        return "all of"
    return f"{part_of_card(part.share) if part.share else f'{part.mib} MiB'} of"


def _waits(claim: ShareClaim) -> Iterator[str]:
    room, asked = claim.room, claim.asked
    if room is None or asked is None:
        yield "It waits for room on a card. Users that may list ResourceSlices see which cards there are."
        return
    if not room.cards:
        yield "No such card is offered: ask the admin whether the driver runs on the nodes with such cards."
        return
    yield _cards(asked, room)
    if room.left_out:
        yield _left_out(room)
    if not room.claims_are_known:
        yield "Users that may list ResourceClaims of all namespaces see how much of them is free."
    elif room.has_room:
        yield "It waits for the scheduler to try again, or for something else that nodes with room lack."
    elif room.usable:
        yield "It starts when pods that hold parts of these cards end."
    else:
        yield "Ask the admin when these cards can be used again."


def _cards(asked: ClaimAsk, room: ClaimRoom) -> str:
    are = "is" if room.usable == 1 else "are"
    size = f" with {asked.card_mib} MiB" if asked.card_mib is not None else " that it accepts"
    total = f"Cards{size}: {room.cards}"
    if not room.usable:
        return f"{total}, none of which can be used."
    if room.usable < room.cards:
        total += f", {room.usable} of which {are} usable"
    if not room.claims_are_known:
        return f"{total}."
    has = f"{room.with_room} have" if room.with_room > 1 else f"{room.with_room or 'none'} has"
    said = f"{total}; {has} enough room"
    if room.with_room and asked.count > 1 and not room.nodes_with_room:
        said += f", but no node has {asked.count} of them"
    if not room.most_free_mib:
        return f"{said}, all are claimed."
    most = f"{room.most_free_mib} of {room.most_free_of} MiB"
    return f"{said}, the most free is {most} on {quoted(room.most_free_on)}."


def _left_out(room: ClaimRoom) -> str:
    named = [
        f"{f'{quoted(each.device)} of ' if each.device else ''}{quoted(each.node)} ({quoted(each.reason)})"
        for each in room.left_out
    ]
    more = f" and {room.more_left_out} more" if room.more_left_out else ""
    return f"Left out: {', '.join(named)}{more}."
