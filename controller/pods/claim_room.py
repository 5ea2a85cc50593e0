"""Finds cards with room for the claim of a waiting pod, for users: the result may be a moment old."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.pods.walks import Walks, digest_of
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode
from kube.scheduling import Constraints
from ledger.claim_room import ClaimAsk, ClaimRoom, ClaimRoomSearch
from ledger.own_demands import OwnDemands
from ledger.why import OWN_DEMANDS
from ledger.why_claim import ShareClaim
from modes.gpu_kinds import GpuKinds
from service.yielding import NODES_AT_ONCE


class ClaimRoomFinder:
    """Walks the nodes with cards once for all claims of the same."""

    def __init__(self, state: LedgerStore, walks: Walks[ClaimRoom] | None = None) -> None:
        self._state = state
        self._walks = walks or Walks[ClaimRoom]()

    async def find(self, claim: ShareClaim, kinds: GpuKinds, demands: Constraints) -> ClaimRoom | None:
        """Return the cards for a claim.

        None if it is unreadable, cards and claims are not listed yet, or it has to wait for the walk.

        Args:
            claim: the claim.
            kinds: kinds of GPU that its pod accepts.
            demands: the pod's demands on its node.
        """
        state, asked = self._state, claim.asked
        if asked is None or not (state.offers_listed.is_set() and state.claims_listed.is_set()):
            return None
        kind = claim.driver, asked, kinds, digest_of(demands)
        return await self._walks.find(kind, lambda: self._walk(claim.driver, asked, kinds, demands))

    async def _walk(self, driver: str, asked: ClaimAsk, kinds: GpuKinds, demands: Constraints) -> ClaimRoom:
        cards, why_not = self._state.ledger.cards, refusals(self._state.nodes, OwnDemands(demands))
        search = ClaimRoomSearch(driver, asked, kinds, why_not)
        async for names in self._state.yielding.batches(sorted(cards.nodes()), NODES_AT_ONCE):
            for name in names:
                search.look_at(name, cards.on(name))
        return search.found


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
        return "" if own.accept(node.fact) is not False else f"excluded by the pod's {OWN_DEMANDS}"

    return why_not
