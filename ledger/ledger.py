"""The ledger: a fold over facts about nodes and pods, plus reservations, and placement on top of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from ledger.accounts import Claim, ClaimKey
from ledger.facts import NodeFact, PodFact, PodKey
from ledger.gpu_memory import GpuMemory, cards_of, memory_of_allocated, memory_of_pod
from ledger.instance_worth import with_instance_worth
from ledger.ledger_reader import LedgerReader
from ledger.placement.candidates import CandidateFinder
from ledger.placement.choice import Choice
from ledger.placement.contested import Contested
from ledger.placement.node_class import free_gpus
from ledger.placement.node_class_prices import NodeClassPrices
from ledger.placement.request_history import RequestHistory, ShadowPrices
from ledger.placement_request import (
    AllocatedShare,
    AllocationResult,
    OverQuota,
    Placement,
    PlacementRequest,
    PlacementResult,
    RequestedShare,
    Unschedulable,
)
from ledger.recent_placements import RecentPlacements
from ledger.reservations import Reservation, Reservations, reservation_of
from modes.mig_instances import is_instance

RESERVATIONS_PER_NAMESPACE = 256
QUIET_SECONDS = 75.0
"""A watch reports at least once a minute. After a longer silence, pods may exist that it has not reported."""
MAX_ENDED_AT_ONCE = 256
"""Reservations that one decision ends first: if more end at once, the rest must not delay it."""


class Ledger(LedgerReader):
    """Which pod holds which slices of which GPU. It has one writer, never blocks, and is given the time.

    A ledger built from a list equals one that was kept by events. Facts may come twice, late or in any order;
    `replace` repairs lost events. If `now` never advances, as in a standalone webhook, reservations never end
    and count like pods.
    """

    def __init__(
        self,
        reservations_per_namespace: int = RESERVATIONS_PER_NAMESPACE,
        on_promise: Callable[[str | None], None] | None = None,
    ) -> None:
        """`on_promise` is the attribute of this name."""
        super().__init__()
        self._pods: dict[PodKey, PodFact] = {}
        self._reservations = Reservations(reservations_per_namespace)
        self._finder = CandidateFinder(self._node_index, self._values)
        self._contested = Contested(
            self._node_index, self._pending, self._values, self._reservations.are_kept
        )
        self._choice = Choice(self._node_index, self._finder, self._owners, self._values, self._contested)
        self._history: dict[int, RequestHistory] = {}
        self._class_prices: dict[int, NodeClassPrices] = {}
        self.on_promise = on_promise
        """Called with the node (None: no node) of each reservation that begins or stops taking room."""
        self._recent = RecentPlacements(self)

    def set_node(self, fact: NodeFact) -> None:
        """Add or change a node; the inverse of `remove_node`."""
        known = self._node_index.fact(fact.name)
        if known == fact:
            return
        if known is not None:
            self._forget_kinds(known)
        self._change_node(fact.name, known, fact)
        self._values.add(fact)
        self._choice.add_node(fact)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods stay until they are removed themselves."""
        known = self._node_index.fact(name)
        if known is not None:
            self._forget_kinds(known)
            self._change_node(name, known, None)

    def _forget_kinds(self, node: NodeFact) -> None:
        self._values.remove(node)
        self._choice.remove_node(node)

    def _change_node(self, name: str, known: NodeFact | None, fact: NodeFact | None) -> None:
        """Set the facts of a node, and recompute its pods' memory if its cards changed."""
        pods = self._pods_on(name) if cards_of(known) != cards_of(fact) else []
        for pod in pods:
            self._usage.remove(pod, memory_of_pod(pod, known))
        self._node_index.set_fact(name, fact)
        for pod in pods:
            self._usage.add(pod, memory_of_pod(pod, fact))
            self.set_pod(pod)

    def _pods_on(self, name: str) -> list[PodFact]:
        account = self._node_index.accounts.get(name)
        claims = account.claims.values() if account is not None else ()
        return [claim for claim in claims if isinstance(claim, PodFact)]

    def _memory_of(self, pod: PodFact) -> GpuMemory:
        return memory_of_pod(pod, self._node_of(pod))

    def _node_of(self, pod: PodFact) -> NodeFact | None:
        node = pod.node or pod.promised_node
        return self._node_index.fact(node) if node is not None else None

    def set_pod(self, fact: PodFact) -> None:
        """Add or change a pod; the inverse of `remove_pod`."""
        known = self._pods.get(fact.key)
        if fact.pooled or (fact.gpus and is_instance(fact.gpus[-1][0])):
            fact = with_instance_worth(fact, self._node_of(fact))
        if known == fact:
            return
        self.remove_pod(fact.key)
        if fact.is_over:
            return
        self._pods[fact.key] = fact
        self._usage.add(fact, self._memory_of(fact))
        self._add_claim(fact.key, fact)
        if known is None:
            self._show_up(fact)

    def _show_up(self, fact: PodFact) -> None:
        """End the reservation of a new pod. A pod that names it later could only be a copy."""
        reservation = self._reservations.get(fact.reservation)
        if reservation is not None and reservation.became(fact):
            self._end(reservation)
        else:
            self._recent.retire(fact)

    def remove_pod(self, key: PodKey) -> None:
        """Remove a pod."""
        known = self._pods.pop(key, None)
        if known is not None:
            self._usage.remove(known, self._memory_of(known))
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
        """End expired reservations, at most `MAX_ENDED_AT_ONCE`; return whether more may be left.

        Reservations whose pods should have appeared by now stop taking room, and quotas stop counting them.

        Args:
            now: seconds of any monotonic clock.
            known_until: up to when the cluster's state is known, if not `now`. A reservation neither ends nor
                frees its room while its pod may exist unreported.
        """
        known_until = now if known_until is None else known_until
        self._recent.expire(known_until)
        counting = now if now - known_until <= QUIET_SECONDS else known_until
        for late in islice(self._reservations.stop_counting(counting), MAX_ENDED_AT_ONCE):
            self._usage.remove(late, late.gpu_memory)
        aged = ended = 0
        for late in islice(self._reservations.stop_holding(known_until), MAX_ENDED_AT_ONCE):
            self._age(late)
            aged += 1
        while ended < MAX_ENDED_AT_ONCE and (over := self._reservations.first_expired(known_until)):
            self._end(over)
            ended += 1
        return MAX_ENDED_AT_ONCE in {aged, ended}

    def place(
        self, request: PlacementRequest, now: float, known_until: float | None = None
    ) -> PlacementResult:
        """Decide where a pod goes. If the request names a reservation, reserve the place.

        A reservation that is requested again is decided again. If a namespace has too many reservations, its
        further pods are only summed up, for a shorter time. A pod with an existing placement is counted like
        any other, unless its reservation of an earlier review matches it.
        """
        result = self.allocate(request, now, known_until)
        return result.placement if isinstance(result, AllocatedShare) else result

    def allocate(
        self, request: PlacementRequest, now: float, known_until: float | None = None
    ) -> AllocationResult:
        """Decide as `place` does; return the placement with the share that the pod gets."""
        self.expire(now, known_until)
        accounting = request.accounting
        if accounting.reservation is not None:
            self.release(accounting.reservation)
        if accounting.owner and self._owners.follow(accounting.owner):
            self._notify_owner(accounting.owner)
        prices = self._history_of(request.share).prices
        existing = request.demands.existing
        stays: AllocatedShare | None = None
        if existing is not None:
            allocated = request.share.allocated(existing)
            stays = self._stays(request, allocated, prices)
            if self._is_counted(request, allocated):
                if stays is not None:
                    return stays
                self._release_former(request)
        result = self._chosen(request, prices) if stays is None else self._exceeded(request, stays) or stays
        if not isinstance(result, AllocatedShare):
            return result
        result = result.placed(reservation=self._reservation_name(request))
        if accounting.reservation is not None:
            self._reserve(request, result, now)
        return result

    def _reserve(self, request: PlacementRequest, allocated: AllocatedShare, now: float) -> None:
        """Reserve a pod's place: under its reservation's name, or only in the sums if there are too many."""
        self._learn(request, allocated.share)
        accounting, name = request.accounting, allocated.placement.reservation
        if name is not None and self._reservations.has_room(accounting.namespace):
            self._begin(reservation_of(accounting, allocated, name, now, self._allocated_memory(allocated)))
            return
        quotas = accounting.quotas
        counted = tuple([key for key in accounting.queues if any(key in quota.keys for quota in quotas)])
        accounting = msgspec.structs.replace(accounting, queues=counted)
        memory = self._allocated_memory(allocated, in_slices=True)
        unit = reservation_of(accounting, allocated, "", now, memory)
        self._recent.add(unit, name, has_quota=bool(quotas))

    def release(self, reservation: str) -> None:
        """Give back the reservation of a name, if it still exists."""
        former = self._reservations.get(reservation)
        if former is not None:
            self._end(former)
        else:
            self._recent.release(reservation)

    def suits(self, request: PlacementRequest) -> Callable[[str], bool]:
        """Return a function: whether the node of a name could ever hold the pod, by its current state."""
        return self._choice.suits(request)

    @property
    def doubts_reservations(self) -> bool:
        """Whether a pod prefers to wait for slices that are only reserved. False without a watch."""
        return self._contested.is_on

    @doubts_reservations.setter
    def doubts_reservations(self, doubts: bool) -> None:
        self._contested.is_on = doubts

    @property
    def reservations(self) -> int:
        """Number of reservations that have neither become a pod nor ended."""
        return len(self._reservations)

    def is_reserved(self, reservation: str) -> bool:
        """Whether a reservation of this name exists: its pod has not appeared, and it has not expired."""
        return self._reservations.get(reservation) is not None or self._recent.knows(reservation)

    def _chosen(self, request: PlacementRequest, prices: ShadowPrices) -> AllocationResult:
        """The best place that exceeds no quota: how much a place counts depends on its kind of GPU."""
        share, quotas = request.share, request.accounting.quotas
        if quotas and not (share.fraction.mib or request.demands.prefer or share.mode_type.gives_instances):
            over = self._usage.passed_by(share.slices, quotas)
            if over is not None:
                return over
        options = self._choice.options(request, prices)
        if isinstance(options, Unschedulable):
            return options
        refused: OverQuota | None = None
        for placement in options if quotas else ():
            allocated = share.allocated(placement)
            over = self._exceeded(request, allocated)
            if over is None:
                return allocated
            refused = refused or over
        return refused or share.allocated(options[0])

    def _exceeded(self, request: PlacementRequest, allocated: AllocatedShare) -> OverQuota | None:
        """The first quota that the pod would exceed, by slices or by memory."""
        quotas = request.accounting.quotas
        over = self._usage.passed_by(allocated.share.slices, quotas)
        if over is not None or all(quota.memory_mib is None for quota in quotas):
            return over
        # `assume` describes nodes without MIG instances.
        assume = request.demands.assume if allocated.share.instance is None else None
        largest = max(self.largest_mib(), assume.gpu_mib if assume is not None else 0)
        return self._usage.memory_passed_by(self._allocated_memory(allocated), quotas, largest)

    def _allocated_memory(self, allocated: AllocatedShare, *, in_slices: bool = False) -> GpuMemory:
        name = allocated.placement.node
        node = self._node_index.fact(name) if name is not None else None
        return memory_of_allocated(allocated, node, in_slices=in_slices)

    def _is_counted(self, request: PlacementRequest, existing: AllocatedShare) -> bool:
        """Whether the pod is already counted, by its reservation of an earlier review."""
        accounting, name = request.accounting, existing.placement.reservation
        key = accounting.namespace, accounting.pod, existing.gpus, existing.pooled
        review = accounting.reservation
        return self._reservations.matches(name, key, review) or self._recent.matches(name, key, review)

    def _stays(
        self, request: PlacementRequest, existing: AllocatedShare, prices: ShadowPrices
    ) -> AllocatedShare | None:
        """The pod's existing placement; None if its memory was assumed and a node is known by now."""
        if not _is_assumed(request.share, existing.placement):
            return existing
        options = self._choice.options(request, prices)
        if isinstance(options, Unschedulable):
            return existing
        if options[0].memory_values:
            return None
        return existing.placed(other_memory_values=options[0].other_memory_values)

    def _release_former(self, request: PlacementRequest) -> None:
        """Release the pod's reservation of an earlier review; not in a dry run."""
        former = request.demands.reservation
        if former is not None and request.accounting.reservation is not None:
            self.release(former)

    def _reservation_name(self, request: PlacementRequest) -> str | None:
        """The reservation's name; None if none is requested, or there are too many to remember another.

        If the pod already names a reservation that does not exist (after a restart), that name is used, so
        its annotation stays as it is.
        """
        accounting, former = request.accounting, request.demands.reservation
        if accounting.reservation is None:
            return None
        if not (self._reservations.has_room(accounting.namespace) or self._recent.has_room()):
            return None
        return accounting.reservation if former is None or self.is_reserved(former) else former

    def _history_of(self, share: RequestedShare) -> RequestHistory:
        slices_per_gpu = share.fraction.slices_per_gpu
        history = self._history.get(slices_per_gpu)
        if history is None:
            history = self._history[slices_per_gpu] = RequestHistory(slices_per_gpu)
        return history

    def _learn(self, request: PlacementRequest, share: RequestedShare) -> None:
        """Learn from a pod that arrived: its share, and the classes of nodes that it accepts."""
        if share.instance is not None:
            return
        if share is not request.share:
            request = msgspec.structs.replace(request, share=share)
        per_gpu = share.fraction.slices_per_gpu
        prices = self._class_prices.get(per_gpu)
        if prices is None:
            prices = self._class_prices[per_gpu] = NodeClassPrices()
        if share.mode_type.prices_node_classes:
            prices.learn(request, self._finder)
        history = self._history_of(share)
        if history.learn(share.fraction, share.cpu_milli):
            classes = self._node_index.classes.values()
            alike = [each for each in classes if each.sample.slices_per_gpu == per_gpu]
            history.renew(free_gpus(alike))
            prices.price(alike)

    def _begin(self, reservation: Reservation) -> None:
        """Add a reservation; the inverse of `_end`."""
        self._reservations.add(reservation)
        self._usage.add(reservation, reservation.gpu_memory)
        self._add_claim(reservation.key, reservation)
        self._notify(reservation)

    def _end(self, reservation: Reservation) -> None:
        was_counted, held = self._reservations.remove(reservation)
        if was_counted:
            self._usage.remove(reservation, reservation.gpu_memory)
        if held:
            self._remove_claim(reservation.key, reservation)
            self._notify(reservation)
        elif reservation.promised_node is not None:
            self._node_index.remove_stale(reservation.promised_node, reservation)
        else:
            self._pending.add_stale(reservation, -1)

    def _age(self, reservation: Reservation) -> None:
        """Stop a reservation from taking room: its pod should have appeared by now."""
        self._remove_claim(reservation.key, reservation)
        if reservation.promised_node is not None:
            self._node_index.add_stale(reservation.promised_node, reservation)
        else:
            self._pending.add_stale(reservation)
        self._notify(reservation)

    def add_many(self, claim: Reservation, unit: Reservation, pods: int) -> None:
        """Add the sum of recently placed pods; the inverse of `remove_many`."""
        self._usage.add(unit, unit.gpu_memory, pods)
        self._add_claim(claim.key, claim)
        self._notify(claim)

    def remove_many(self, claim: Reservation, unit: Reservation, pods: int) -> None:
        """Remove the sum of recently placed pods; the inverse of `add_many`."""
        self._usage.remove(unit, unit.gpu_memory, pods)
        self._remove_claim(claim.key, claim)
        self._notify(claim)

    def _notify(self, reservation: Reservation) -> None:
        if self.on_promise is not None:
            self.on_promise(reservation.promised_node)

    def _notify_owner(self, owner: str) -> None:
        if self.on_promise is not None:
            for node in self._owners.on_nodes(owner):
                self.on_promise(node)

    def _add_claim(self, key: ClaimKey, claim: Claim) -> None:
        """Add a claim to its node, or to the pending ones; the inverse of `_remove_claim`."""
        if claim.owner:
            self._owners.add(claim)
        node = claim.node or claim.promised_node
        if node is not None:
            self._node_index.take(node, key, claim)
        elif claim.slices:
            self._pending.add(key, claim)

    def _remove_claim(self, key: ClaimKey, claim: Claim) -> None:
        if claim.owner:
            self._owners.remove(claim)
        node = claim.node or claim.promised_node
        if node is not None:
            self._node_index.give_back(node, key)
        elif claim.slices:
            self._pending.remove(key)


def _is_assumed(share: RequestedShare, existing: Placement) -> bool:
    """Whether the GPU memory of the pod's placement is assumed and comes from no node."""
    return existing.instance is None and not existing.memory_values and share.is_bound_by_memory
