"""The cards that DRA drivers offer by ResourceSlice, and what ResourceClaims hold of them.

The scheduler chooses cards and counts what is free: nothing here decides. A change costs the size of the
changed object, and `on` that of the node. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from kube.dra import SHARES_OF_CARD
from modes.facts import PodKey

MAX_CARDS = 131_072
"""Cards that are kept in total; with dynamic MIG, NVIDIA's driver writes one ResourceSlice per card."""
MAX_CARDS_OF_NODE = 256
"""Cards that are kept of a node: its agent may write any number of slices, and `on` walks them all."""
MAX_CLAIMS = 262_144
"""ResourceClaims with parts of cards that are kept."""
MAX_PARTS = 32
"""Kubernetes' own maximum of devices in a claim."""


class CardKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """The name by which a claim refers to a device."""

    driver: str
    pool: str
    device: str


CardKind = tuple[str, int]
"""Model as in node labels, with hyphens for blanks (empty if the driver states none), and MiB."""


class ClaimableCard(msgspec.Struct, frozen=True, gc=False):
    """A card in a ResourceSlice."""

    device: str
    mib: int
    uuid: str = ""
    model: str = ""
    is_shareable: bool = True
    """Whether several claims may hold parts of it (`allowMultipleAllocations`)."""
    taint: str = ""
    """The first taint that keeps pods away from it, such as "gpu.nvidia.com/xid=79"; empty if none."""

    @property
    def kind(self) -> CardKind:
        """Its model and MiB."""
        return self.model.replace(" ", "-"), self.mib


class OfferedSlice(msgspec.Struct, frozen=True, gc=False):
    """The cards of one ResourceSlice; none if it is of a driver that claims of shares do not use."""

    name: str
    driver: str
    pool: str = ""
    node: str = ""
    """Empty if its devices do not belong to a single node."""
    generation: int = 1
    """Of the pool: slices of an earlier generation are out of date."""
    cards: tuple[ClaimableCard, ...] = ()


class ClaimedPart(msgspec.Struct, frozen=True, gc=False):
    """What a claim holds of one card."""

    card: CardKey
    mib: int = 0
    """0 if the driver's cards are claimed by their shares."""
    share: int = 0
    """In parts of which a card has SHARES_OF_CARD. All of them: the scheduler counted no capacity."""
    request: str = ""
    """Name of the request, and of its alternative after a slash."""

    def mib_of(self, card_mib: int) -> int:
        """Return what it is of a card with this many MiB."""
        return self.mib + card_mib * self.share // SHARES_OF_CARD


class CardClaim(msgspec.Struct, frozen=True, gc=False):
    """An allocated ResourceClaim; without parts if it is not allocated, or holds no cards."""

    namespace: str
    name: str
    pod: str = ""
    """Name of the first pod that it is reserved for."""
    parts: tuple[ClaimedPart, ...] = ()

    @property
    def key(self) -> PodKey:
        """Namespace and name."""
        return self.namespace, self.name


class CardUse(msgspec.Struct, frozen=True, gc=False):
    """A card of a node, and what claims hold of it."""

    key: CardKey
    card: ClaimableCard
    claimed_mib: int = 0
    """More than the card has if its memory became less than what was claimed."""
    claims: int = 0
    """Number of claims that hold a part of it."""
    claimed_share: int = 0
    """Of SHARES_OF_CARD, if its driver offers shares."""

    @property
    def free_mib(self) -> int:
        """MiB that a further claim may take, taints aside."""
        if self.claims and not self.card.is_shareable:
            return 0
        return max(0, self.card.mib - self.claimed_mib)


class ClaimedCards:
    """Cards by node, and claims by card."""

    def __init__(self, max_cards: int = MAX_CARDS, max_claims: int = MAX_CLAIMS) -> None:
        self._max_cards, self._max_claims = max_cards, max_claims
        self._slices: dict[str, OfferedSlice] = {}
        self._claims: dict[PodKey, CardClaim] = {}
        self._by_node: dict[str, dict[str, OfferedSlice]] = {}
        self._nodes_of_pool: dict[tuple[str, str], Counter[str]] = {}
        self._kinds: Counter[tuple[str, CardKind, bool]] = Counter()
        """Cards by driver, kind, and whether claims may share them; also of slices that are out of date."""
        self._changed: set[str] = set()
        """Nodes whose entry in `_most_free` is out of date."""
        self._most_free: dict[str, dict[CardKind, tuple[int, int]]] = {}
        self._held: dict[CardKey, dict[PodKey, CardClaim]] = {}
        """The claims on each card, offered or not."""

    @property
    def slice_names(self) -> AbstractSet[str]:
        """Names of the ResourceSlices that are kept."""
        return self._slices.keys()

    @property
    def claim_keys(self) -> AbstractSet[PodKey]:
        """Namespaces and names of the ResourceClaims that are kept."""
        return self._claims.keys()

    def put_slice(self, found: OfferedSlice) -> set[str]:
        """Add or change a ResourceSlice within the bounds, and return the nodes; undone by `remove_slice`."""
        if self._slices.get(found.name) == found:
            return set()
        nodes = self.remove_slice(found.name)
        if not found.cards or not self._has_room_for(found):
            return nodes
        self._slices[found.name] = found
        self._kinds.update(_kinds(found))
        if found.node:
            self._by_node.setdefault(found.node, {})[found.name] = found
            self._nodes_of_pool.setdefault((found.driver, found.pool), Counter())[found.node] += 1
            nodes.add(found.node)
            self._changed.add(found.node)
        return nodes

    def _has_room_for(self, found: OfferedSlice) -> bool:
        of_node = self._by_node.get(found.node, {}).values()
        there, more = sum([len(each.cards) for each in of_node]), len(found.cards)
        return self._kinds.total() + more <= self._max_cards and there + more <= MAX_CARDS_OF_NODE

    def remove_slice(self, name: str) -> set[str]:
        """Forget a ResourceSlice, and return the affected nodes."""
        found = self._slices.pop(name, None)
        if found is None:
            return set()
        self._kinds -= Counter(_kinds(found))
        if not found.node:
            return set()
        of_node = self._by_node[found.node]
        del of_node[name]
        self._changed.add(found.node)
        if not of_node:
            del self._by_node[found.node]
            self._changed.discard(found.node)
            self._most_free.pop(found.node, None)
        pool = found.driver, found.pool
        self._nodes_of_pool[pool] -= Counter([found.node])
        if not self._nodes_of_pool[pool]:
            del self._nodes_of_pool[pool]
        return {found.node}

    def put_claim(self, found: CardClaim) -> set[str]:
        """Add or change a ResourceClaim within the bound, and return the nodes; undone by `remove_claim`."""
        if self._claims.get(found.key) == found:
            return set()
        nodes = self.remove_claim(found.key)
        if not found.parts or len(self._claims) >= self._max_claims:
            return nodes
        self._claims[found.key] = found
        for part in found.parts:
            self._held.setdefault(part.card, {})[found.key] = found
        nodes |= self.nodes_of(found)
        self._changed |= nodes
        return nodes

    def remove_claim(self, key: PodKey) -> set[str]:
        """Forget a ResourceClaim, and return the affected nodes."""
        found = self._claims.pop(key, None)
        if found is None:
            return set()
        for card in {part.card for part in found.parts}:
            del self._held[card][key]
            if not self._held[card]:
                del self._held[card]
        nodes = self.nodes_of(found)
        self._changed |= nodes
        return nodes

    def claims_on(self, key: CardKey) -> Collection[CardClaim]:
        """Return the allocated ResourceClaims that hold parts of a card."""
        return self._held.get(key, {}).values()

    def claim(self, key: PodKey) -> CardClaim | None:
        """Return an allocated ResourceClaim."""
        return self._claims.get(key)

    def nodes(self) -> AbstractSet[str]:
        """Return the names of the nodes with offered cards."""
        return self._by_node.keys()

    def nodes_of(self, claim: CardClaim) -> set[str]:
        """Return the nodes of those pools whose cards a claim holds."""
        pools = {(part.card.driver, part.card.pool) for part in claim.parts}
        return {node for pool in pools for node in self._nodes_of_pool.get(pool, ())}

    def on(self, node: str) -> list[CardUse]:
        """Return the cards of a node, in the order of driver, pool and number of the device."""
        slices = self._by_node.get(node, {}).values()
        newest: dict[tuple[str, str], int] = {}
        for each in slices:
            pool = each.driver, each.pool
            newest[pool] = max(each.generation, newest.get(pool, each.generation))
        found = {
            CardKey(each.driver, each.pool, card.device): card
            for each in slices
            if each.generation == newest[each.driver, each.pool]
            for card in each.cards
        }
        return [self._use(key, found[key]) for key in sorted(found, key=_order)]

    def most_free(self) -> Mapping[str, Mapping[CardKind, tuple[int, int]]]:
        """Return for each node and kind the most MiB, and SHARES_OF_CARD, that are free on one card."""
        for node in self._changed:
            freest = self._most_free[node] = {}
            for use in self.on(node):
                mib, share = freest.get(use.card.kind, (0, 0))
                free = SHARES_OF_CARD - use.claimed_share
                freest[use.card.kind] = max(mib, use.free_mib), max(share, free)
        self._changed.clear()
        return self._most_free

    def kinds(self, driver: str, *, whole: bool = False) -> Mapping[CardKind, int]:
        """Return how many cards that claims may share, or with `whole` any, a driver offers, by kind."""
        found = Counter[CardKind]()
        for (of_driver, kind, is_shareable), number in self._kinds.items():
            if of_driver == driver and (whole or is_shareable):
                found[kind] += number
        return found

    def sizes_on(self, node: str | None) -> tuple[int, ...]:
        """Return the MiB of the cards of a node, or of all without its own: each once, the smallest first."""
        slices = self._by_node.get(node) if node is not None else None
        if slices is None:
            return tuple(sorted({mib for _, (_, mib), _ in self._kinds}))
        return tuple(sorted({card.mib for each in slices.values() for card in each.cards}))

    def _use(self, key: CardKey, card: ClaimableCard) -> CardUse:
        claims = self.claims_on(key)
        parts = [part for claim in claims for part in claim.parts if part.card == key]
        mib, share = sum([part.mib for part in parts]), sum([part.share for part in parts])
        return CardUse(key, card, mib + card.mib * share // SHARES_OF_CARD, len(claims), share)


def _kinds(found: OfferedSlice) -> list[tuple[str, CardKind, bool]]:
    return [(found.driver, card.kind, card.is_shareable) for card in found.cards]


def _order(key: CardKey) -> tuple[str, str, int, str]:
    """Sort by the number at the end of a device's name: "gpu-2" comes before "gpu-10"."""
    return key.driver, key.pool, len(key.device), key.device
