"""Finds cards with room for the claim of a waiting pod, for users: the result may be a moment old."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping

import msgspec

from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode
from kube.scheduling import Constraints
from ledger.claim_room import ClaimAsk, ClaimRoom, ClaimRoomSearch
from ledger.own_demands import OwnDemands
from ledger.why import OWN_DEMANDS
from ledger.why_claim import ShareClaim
from modes.gpu_kinds import GpuKinds
from service.yielding import NODES_AT_ONCE

KEPT_SECONDS = 2.0
"""How long a result is reused for claims of the same."""
ClaimKind = tuple[str, ClaimAsk | None, GpuKinds, bytes]
"""Driver of claims and what they ask for, kinds of GPU and a digest of the demands of their pods."""


class ClaimRoomFinder:
    """Walks the nodes with cards once for all claims of the same."""

    def __init__(self, state: LedgerStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._clock = clock
        self._kept: dict[ClaimKind, tuple[float, ClaimRoom]] = {}

    async def find(self, claim: ShareClaim, kinds: GpuKinds, demands: Constraints) -> ClaimRoom | None:
        """Return the cards for a claim; None if it is unreadable, or cards and claims are not listed yet.

        Args:
            claim: the claim.
            kinds: kinds of GPU that its pod accepts.
            demands: the pod's demands on its node.
        """
        is_listed = self._state.offers_listed.is_set() and self._state.claims_listed.is_set()
        if not is_listed or claim.asked is None:
            return None
        now = self._clock()
        self._kept = {kind: kept for kind, kept in self._kept.items() if kept[0] > now}
        kind = kind_of_claim(claim, kinds, demands)
        kept = self._kept.get(kind)
        if kept is None:
            kept = self._kept[kind] = (
                now + KEPT_SECONDS,
                await self._walk(claim.driver, claim.asked, kinds, demands),
            )
        return kept[1]

    async def _walk(self, driver: str, asked: ClaimAsk, kinds: GpuKinds, demands: Constraints) -> ClaimRoom:
        cards, why_not = self._state.ledger.cards, refusals(self._state.nodes, OwnDemands(demands))
        search = ClaimRoomSearch(driver, asked, kinds, why_not)
        async for names in self._state.yielding.batches(sorted(cards.nodes()), NODES_AT_ONCE):
            for name in names:
                search.look_at(name, cards.on(name))
        return search.found


def kind_of_claim(claim: ShareClaim, kinds: GpuKinds, demands: Constraints) -> ClaimKind:
    """Return what claims have in common that could take the same cards; the arguments are those of `find`."""
    digest = hashlib.sha256(msgspec.json.encode(demands)).digest()[:16]
    return claim.driver, claim.asked, kinds, digest


def refusals(known: Mapping[str, SeenNode] | None, own: OwnDemands) -> Callable[[str], str]:
    """Return what says why a pod cannot run on a node, by its name; it returns "" if it can.

    Args:
        known: the nodes; None if they could not be read, then no node is refused.
        own: the pod's demands on its node.
    """

    def why_not(name: str) -> str:
        if known is None:
            return ""
        node = known.get(name)
        if node is None:
            return "deleted"
        if not node.fact.usable:
            return "cordoned or not ready"
        return "" if own.accept(node.fact) is not False else f"excluded by the pod's own {OWN_DEMANDS}"

    return why_not
