"""Write access to the ledger: nodes and pods as they are watched, and reservations that begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ledger.accounts import Claim, ClaimKey
from ledger.claimed_cards import OfferedSlice
from ledger.claims import ClaimOptions
from ledger.gpu_memory import GpuMemory, cards_of, memory_of_pod
from ledger.instance_worth import with_instance_worth
from ledger.ledger_reader import LedgerReader
from ledger.placement.candidates import CandidateFinder
from ledger.placement.choice import Choice
from ledger.placement.expected_pods import ExpectedPods
from ledger.reservations import MAX_RESERVATIONS, Reservation, Reservations
from modes.facts import NodeFact, PodFact, PodKey

MAX_ENDED_AT_ONCE = 256
"""Reservations that one decision ends first: if more end at once, the rest must not delay it."""
COUNTED_AT_ONCE = 128
"""Pods with claims that one step counts again."""


class LedgerWriter(LedgerReader):
    """Takes in facts and reservations. Only its subclass `Ledger` decides where a pod goes."""

    def __init__(
        self,
        most_reservations: int = MAX_RESERVATIONS,
        on_promise: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        """`on_promise` is the attribute of this name."""
        super().__init__()
        self._pods: dict[PodKey, PodFact] = {}
        self._uncounted: dict[PodKey, None] = {}
        """Pods with claims that are to be counted again, because other sizes of cards are offered."""
        self._reservations = Reservations(most_reservations)
        self._finder = CandidateFinder(self._node_index)
        self._expected: dict[int, ExpectedPods] = {}
        """By slices of a GPU."""
        claims = ClaimOptions(self.cards, self._node_index, self._pending)
        self._choice = Choice(self._finder, self._owners, self._kinds, self._pending, claims)
        self.on_promise = on_promise
        """Called with the node (None: no node) of each reservation that begins or ends."""

    def set_node(self, fact: NodeFact) -> None:
        """Add or change a node; the inverse of `remove_node`."""
        self._set_fact(fact.name, fact)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods stay until they are removed themselves."""
        self._set_fact(name, None)

    def _set_fact(self, name: str, fact: NodeFact | None) -> None:
        """Set the facts of a node, and recompute its pods' memory if its cards changed."""
        known = self._node_index.fact(name)
        if known == fact:
            return
        pods = self._pods_on(name) if cards_of(known) != cards_of(fact) else []
        for pod in pods:
            self._usage.remove(pod, memory_of_pod(pod, known))
        self._node_index.set_fact(name, fact)
        for pod in pods:
            self._usage.add(pod, memory_of_pod(pod, fact))
            self.set_pod(pod)
        for each, sign in ((known, -1), (fact, 1)):
            if each is not None:
                self._kinds.add(each, sign)
        if name in self.cards.nodes():
            self.note_cards((name,))

    def note_cards(self, nodes: Iterable[str]) -> None:
        """Record that offers or claims of cards of some nodes have changed: they are counted again."""
        self._card_totals.note(nodes)

    def _pods_on(self, name: str) -> list[PodFact]:
        account = self._node_index.accounts.get(name)
        claims = account.claims.values() if account is not None else ()
        return [claim for claim in claims if not claim.is_reserved]

    def _memory_of(self, pod: PodFact) -> GpuMemory:
        return memory_of_pod(pod, self._node_of(pod))

    def _node_of(self, pod: PodFact) -> NodeFact | None:
        node = pod.node or pod.promised_node
        return self._node_index.fact(node) if node is not None else None

    def put_offer(self, found: OfferedSlice) -> set[str]:
        """Add or change a ResourceSlice of cards, and return the affected nodes; undone by `remove_offer`.

        If other sizes of cards are offered then, `count_again` is due.
        """
        before = self.cards.sizes_on(None)
        return self._note_sizes(self.cards.put_slice(found), before)

    def remove_offer(self, name: str) -> set[str]:
        """Remove a ResourceSlice, and return the affected nodes; the inverse of `put_offer`."""
        before = self.cards.sizes_on(None)
        return self._note_sizes(self.cards.remove_slice(name), before)

    def _note_sizes(self, nodes: set[str], sizes: tuple[int, ...]) -> set[str]:
        """Count the claims of some nodes again, and note all others if these are no longer the sizes."""
        for pod in [pod for node in nodes for pod in self._pods_on(node) if pod.claimed]:
            self.set_pod(pod)
        if self.cards.sizes_on(None) != sizes:
            self._uncounted = {key: None for key, pod in self._pods.items() if pod.claimed}
        return nodes

    def count_again(self) -> bool:
        """Count claims again by the cards that they may be parts of now; return whether more are left.

        One call counts COUNTED_AT_ONCE pods: a cluster may have so many that all would delay decisions.
        """
        for _ in range(min(COUNTED_AT_ONCE, len(self._uncounted))):
            self.set_pod(self._pods[self._uncounted.popitem()[0]])
        return bool(self._uncounted)

    def _with_worth(self, pod: PodFact) -> PodFact:
        """Return a pod with the worth of its instances, and the cards that its claims may be parts of."""
        pod = with_instance_worth(pod, self._node_of(pod))
        cards = self.cards.sizes_on(pod.node) if pod.claimed else ()
        return pod if cards == pod.claimable else msgspec.structs.replace(pod, claimable=cards)

    def set_pod(self, fact: PodFact) -> None:
        """Add or change a pod; the inverse of `remove_pod`."""
        known = self._pods.get(fact.key)
        fact = self._with_worth(fact)
        if known == fact:
            return
        self.remove_pod(fact.key)
        if fact.is_over:
            return
        self._pods[fact.key] = fact
        memory = self._memory_of(fact)
        self._usage.add(fact, memory)
        if fact.quota_wait is not None and fact.quota_wait.is_next:
            self.line.add(fact, memory)
        self._add_claim(fact.key, fact)
        if known is None:
            self._show_up(fact)

    def _show_up(self, fact: PodFact) -> None:
        """End the reservation of a new pod. A pod that names it later could only be a copy."""
        reservation = self._reservations.get(fact.reservation)
        if reservation is not None and reservation.became(fact):
            self._end(reservation)

    def remove_pod(self, key: PodKey) -> None:
        """Remove a pod."""
        known = self._pods.pop(key, None)
        if known is not None:
            self._uncounted.pop(key, None)
            self._usage.remove(known, self._memory_of(known))
            self.line.remove(key)
            self._remove_claim(key, known)

    def replace(self, nodes: Iterable[NodeFact], pods: Iterable[PodFact]) -> None:
        """Replace all nodes and pods by a full list. Reservations stay until they expire."""
        listed_nodes = {node.name: node for node in nodes}
        listed_pods = {pod.key: pod for pod in pods}
        for key in self._pods.keys() - listed_pods.keys():
            self.remove_pod(key)
        for name in self._node_index.accounts.keys() - listed_nodes.keys():
            self.remove_node(name)
        for node in listed_nodes.values():
            self.set_node(node)
        for pod in listed_pods.values():
            self.set_pod(pod)

    def expire(self, now: float, known_until: float | None = None) -> bool:
        """End expired reservations, but none whose pod may have come unreported since `known_until`.

        Both are seconds of any monotonic clock. At most MAX_ENDED_AT_ONCE end; return whether more may.
        """
        known_until = now if known_until is None else known_until
        for _ in range(MAX_ENDED_AT_ONCE):
            over = self._reservations.first_expired(known_until)
            if over is None:
                return False
            self._end(over)
        return True

    def release(self, reservation: str) -> None:
        """Give back the reservation of a name, if it still exists."""
        former = self._reservations.get(reservation)
        if former is not None:
            self._end(former)

    @property
    def reservations(self) -> int:
        """Number of reservations that have neither become a pod nor ended."""
        return len(self._reservations)

    def is_reserved(self, reservation: str) -> bool:
        """Whether a reservation of this name exists: its pod has not appeared, and it has not expired."""
        return self._reservations.get(reservation) is not None

    def _begin(self, reservation: Reservation) -> None:
        """Add a reservation; the inverse of `_end`."""
        self._reservations.add(reservation)
        self._usage.add(reservation.claim, reservation.gpu_memory)
        self._add_claim(reservation.key, reservation.claim)
        self.on_promise(reservation.claim.promised_node)

    def _end(self, reservation: Reservation) -> None:
        self._reservations.remove(reservation)
        self._usage.remove(reservation.claim, reservation.gpu_memory)
        self._remove_claim(reservation.key, reservation.claim)
        self.on_promise(reservation.claim.promised_node)

    def _add_claim(self, key: ClaimKey, claim: Claim) -> None:
        """Add a claim to its node, or to the pending ones; the inverse of `_remove_claim`."""
        if claim.owner:
            self._owners.add(claim)
        node = claim.node or claim.promised_node
        if node is not None:
            self._node_index.take(node, key, claim)
        else:
            self._pending.add(key, claim)

    def _remove_claim(self, key: ClaimKey, claim: Claim) -> None:
        if claim.owner:
            self._owners.remove(claim)
        node = claim.node or claim.promised_node
        if node is not None:
            self._node_index.give_back(node, key)
        else:
            self._pending.remove(key, claim)
