"""The kinds of GPU in a cluster that a pod's node affinity allows, or that its claim may take."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from kube.names import MIN_GPU_MEMORY_ANNOTATION
from ledger.claim_room import room_of
from ledger.claims import asked_of
from ledger.ledger import Ledger
from ledger.own_demands import OwnDemands
from ledger.placement_request import Placement
from modes.claim import ClaimedShare
from modes.memory_text import memory_mib


def remaining_kinds(ledger: Ledger, pod: dict[str, Any], placement: Placement) -> list[dict[str, Any]]:
    """Return model, MiB and number of nodes of each kind of GPU that a placed pod may get, by model."""
    least = memory_mib(_annotations(pod).get(MIN_GPU_MEMORY_ANNOTATION) or "") or 0
    values = {int(value) for value in placement.memory_values}
    models = placement.products
    return [
        {"model": model, "memoryMiB": mib, "nodes": nodes}
        for (model, mib), nodes in sorted(ledger.gpu_kinds().items(), key=repr)
        if (not values or mib in values) and (not models or model in models) and (mib or 0) >= least
    ]


def offers_cards(ledger: Ledger, driver: str) -> bool:
    """Whether a DRA driver offers any card."""
    return bool(ledger.cards.kinds(driver, whole=True))


def claimable_cards(
    ledger: Ledger, share: ClaimedShare, pod: dict[str, Any]
) -> tuple[list[dict[str, Any]], bool | None]:
    """Return model, MiB and number of each kind of card that a pod's claim may take, and whether it has room.

    It is not known whether there is room (None) if its driver offers no card, or parts may be on several.
    """
    if not offers_cards(ledger, share.driver):
        return [], None
    # Here and not above: only inventories with cards need what reads pods, which loads a client.
    from controller.pods.pending_pod import StoredPod  # noqa: PLC0415

    asked, cards, kinds = asked_of(share), ledger.cards, Counter[tuple[str, int]]()
    for use in [use for node in cards.nodes() for use in cards.on(node) if use.key.driver == share.driver]:
        if asked.accepts(use, share.kinds):
            kinds[use.card.kind] += 1
    found = [
        {"model": model or None, "memoryMiB": mib, "cards": number}
        for (model, mib), number in sorted(kinds.items())
    ]
    own = OwnDemands(msgspec.convert({"metadata": {}, "spec": pod["spec"]}, StoredPod).constraints)
    room = room_of(share.driver, asked, share.kinds, cards, lambda node: own.why_not(ledger.fact(node)))
    return found, None if share.is_apart else room.has_room


def _annotations(pod: dict[str, Any]) -> dict[str, Any]:
    return (pod.get("metadata") or {}).get("annotations") or {}
