"""The cards that DRA drivers offer, and what claims hold of them, as the API server has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cluster.kube_client import ApiServer
from cluster.listing import list_all, pages
from controller.pods.pod_claim import UNANSWERED, Note
from controller.watch.card_claims import card_claims
from controller.watch.claim_cards import offered_slices
from ledger.claim_room import ClaimRoom, room_of
from ledger.claimed_cards import ClaimedCards
from ledger.why_claim import ShareClaim
from modes.gpu_kinds import GpuKinds


async def put_slices(api: ApiServer, cards: ClaimedCards, driver: str | None = None) -> None:
    """List the ResourceSlices of a driver; None for all drivers whose cards shares may be of.

    Raises:
        UNANSWERED: they cannot be listed.
    """
    found = offered_slices()
    if driver is not None:
        found = replace(found, fields={"fieldSelector": f"spec.driver={driver}"})
    async for page, _ in pages(api, found):
        for each in page:
            cards.put_slice(each)


async def read_room(
    api: ApiServer, claim: ShareClaim, kinds: GpuKinds, why_not: Callable[[str], str], note: Note
) -> ClaimRoom | None:
    """Return the cards that a claim could take; None if it or the offered cards cannot be read.

    Args:
        api: the API server.
        claim: the claim.
        kinds: kinds of GPU that its pod accepts.
        why_not: why the pod cannot run on a node, by its name; empty if it can.
        note: gets what cannot be read.
    """
    cards = ClaimedCards()
    if claim.asked is None:
        return None
    try:
        await put_slices(api, cards, claim.driver)
    except UNANSWERED as error:
        note("ResourceSlices, which show the cards", error)
        return None
    try:
        for each in await list_all(api, card_claims()):
            cards.put_claim(each)
    except UNANSWERED as error:
        note("ResourceClaims of all namespaces, which show what is free of the cards", error)
        known = False
    else:
        known = True
    return replace(room_of(claim.driver, claim.asked, kinds, cards, why_not), claims_are_known=known)
