"""Finds nodes and cards with room for a waiting pod, for users: the result may be a moment old."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from controller.watch.ledger_store import LedgerStore
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from kube.scheduling import Constraints
from ledger.claim_room import ClaimAsk, ClaimRoom, ClaimRoomSearch
from ledger.free_nodes import FreeNodes, FreeNodesSearch, NodeRoom, Wanted, amounts_of
from ledger.own_demands import OwnDemands
from ledger.why_claim import ShareClaim
from modes.facts import PodFact
from modes.gpu_kinds import GpuKinds
from service.yielding import NODES_AT_ONCE

KEPT_SECONDS = 3.0
"""Longer if walks for all that is kept take longer: so those for others have a turn."""
MAX_KEPT = 256
ANY_NODE = Constraints()
"""The demands of a pod without demands."""
_Found = TypeVar("_Found")


class Walks(Generic[_Found]):
    """What walks over all nodes have found, because many pods wait for the same."""

    def __init__(self, clock: Callable[[], float], pause_seconds: float) -> None:
        """Pause between two walks; with 0 seconds, no pod has to wait for one."""
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._kept: OrderedDict[Hashable, tuple[float, _Found]] = OrderedDict()
        self._next_walk = float("-inf")

    async def find(self, kind: Hashable, walk: Callable[[], Awaitable[_Found]]) -> _Found | None:
        """Return what `walk` finds for pods of a kind; None if they have to wait for it."""
        now = self._clock()
        kept = self._kept.get(kind)
        if (kept is None or kept[0] <= now) and now >= self._next_walk:
            seconds = max(KEPT_SECONDS, 2 * self._pause_seconds * len(self._kept))
            kept = self._kept[kind] = now + seconds, await walk()
            # Counted from the end, because a walk over many nodes may itself take that long.
            self._next_walk = self._clock() + self._pause_seconds
            self._kept.move_to_end(kind)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return kept[1] if kept is not None else None


class RoomFinder:
    """Walks all nodes, or those with cards, once for all pods with the same request."""

    def __init__(
        self, state: LedgerStore, clock: Callable[[], float] = time.monotonic, pause_seconds: float = 0.0
    ) -> None:
        """`pause_seconds` is the time between two walks."""
        self._state = state
        self._of_nodes = Walks[FreeNodes](clock, pause_seconds)
        self._of_cards = Walks[ClaimRoom](clock, pause_seconds)

    async def nodes(
        self, fact: PodFact, demands: Constraints = ANY_NODE, *, by_agent: bool = False
    ) -> FreeNodes | None:
        """Return the nodes for a pod with these demands; None if it has to wait for the walk.

        With `by_agent` only nodes with a serving agent count, because nothing else limits the pod.
        """
        wanted = Wanted(amounts_of(fact), fact.memory_values, fact.models, by_agent)
        return await self._of_nodes.find(
            (wanted, _digest(demands)), lambda: self._walk_nodes(wanted, demands)
        )

    async def cards(self, claim: ShareClaim, kinds: GpuKinds, demands: Constraints) -> ClaimRoom | None:
        """Return the cards for the claim of a pod that accepts these kinds of GPU and has these demands.

        None if it is unreadable, cards and claims are not listed yet, or it has to wait for the walk.
        """
        state, asked = self._state, claim.asked
        if asked is None or not (state.offers_listed.is_set() and state.claims_listed.is_set()):
            return None
        kind = claim.driver, asked, kinds, _digest(demands)
        return await self._of_cards.find(kind, lambda: self._walk_cards(claim.driver, asked, kinds, demands))

    async def _walk_nodes(self, wanted: Wanted, demands: Constraints) -> FreeNodes:
        own = OwnDemands(demands)
        search = FreeNodesSearch(wanted, lambda name: own.accept(self._state.nodes[name].fact))
        async for names in self._state.yielding.batches(list(self._state.nodes)):
            for node in filter(None, map(self._state.nodes.get, names)):
                fact = node.fact
                product, memory = map(fact.labels.get, (GPU_PRODUCT_LABEL, GPU_MEMORY_LABEL))
                free = self._state.ledger.free_units(fact.name)
                serves = fact.agent == "serving"
                search.look_at(NodeRoom(fact.name, fact.usable, product, memory, serves, free))
        return search.found

    async def _walk_cards(
        self, driver: str, asked: ClaimAsk, kinds: GpuKinds, demands: Constraints
    ) -> ClaimRoom:
        own, ledger = OwnDemands(demands), self._state.ledger
        search = ClaimRoomSearch(driver, asked, kinds, lambda name: own.why_not(ledger.fact(name)))
        async for names in self._state.yielding.batches(sorted(ledger.cards.nodes()), NODES_AT_ONCE):
            for name in names:
                search.look_at(name, ledger.cards.on(name))
        return search.found


def _digest(demands: Constraints) -> bytes:
    """Return what is equal for pods with equal demands on their node."""
    return hashlib.sha256(msgspec.json.encode(demands)).digest()[:16]
