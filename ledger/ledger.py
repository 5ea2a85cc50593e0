"""The ledger: a fold over facts about nodes and pods, plus reservations, and placement on top of both."""

from __future__ import annotations

import msgspec

from ledger.ledger_writer import LedgerWriter
from ledger.placement.expected_pods import ExpectedPods
from ledger.placement_request import (
    AllocatedShare,
    AllocationResult,
    OverQuota,
    PlacementRequest,
    PlacementResult,
    RequestedShare,
    Unschedulable,
)
from ledger.quota_usage import QuotaUsage, Used, exceeded
from ledger.reservations import LIFETIME_SECONDS, Reservation, expected_pod
from modes.facts import PodFact


class Ledger(LedgerWriter):
    """Which pod holds which slices of which GPU. It has one writer, never blocks, and is given the time.

    A ledger built from a list equals one that was kept by events. Facts may come twice, late or in any order;
    `replace` repairs lost events. If `now` never advances, as in a standalone webhook, reservations never end
    and count like pods.
    """

    def place(
        self, request: PlacementRequest, now: float, known_until: float | None = None
    ) -> PlacementResult:
        """Decide where a pod goes. If the request names a reservation, reserve the place.

        A reservation that is requested again is decided again. If there are too many, the oldest ends. A pod
        with an existing placement is counted like any other, unless its reservation of an earlier review
        matches it.
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
        existing = request.demands.existing
        stays: AllocatedShare | None = None
        if existing is not None:
            allocated = request.share.allocated(existing)
            stays = self._stays(request, allocated)
            if self._is_counted(request, allocated):
                if stays is not None and not self._lost_gate(request):
                    return stays
                if request.demands.reservation is not None and accounting.reservation is not None:
                    self.release(request.demands.reservation)
            elif existing.cards:
                # The pod's author may have invented them: a claim of such sizes takes whole cards.
                stays = None
        result = self._chosen(request) if stays is None else self._kept(request, stays)
        if not isinstance(result, AllocatedShare):
            return result
        name = self._reservation_name(request, takes_room=bool(result.takes or request.demands.prefer))
        result = result.placed(reservation=name)
        if name is not None:
            self._reserve(request, result, now)
        return result

    def _reserve(self, request: PlacementRequest, allocated: AllocatedShare, now: float) -> None:
        """Reserve a pod's place; if there are too many reservations, an old one ends."""
        self._learn(request, allocated.share)
        accounting = request.accounting
        namespace, has_quota = accounting.namespace, bool(accounting.quotas)
        while oldest := self._reservations.first_beyond(namespace, has_quota=has_quota):
            self._end(oldest)
        claim = self._pod_for(request, allocated)
        reservation = Reservation(
            claim=claim,
            gpu_memory=self._memory_of(claim),
            expires_at=now + LIFETIME_SECONDS,
            pod=accounting.pod,
            has_quota=has_quota,
        )
        self._begin(reservation)

    def _chosen(self, request: PlacementRequest) -> AllocationResult:
        """The best place that exceeds no quota, or one to wait at for the quota, if the policy says so."""
        if request.demands.is_gated:
            return self._gated(request)
        found = self._first_within(self._usage, request)
        if not self._must_wait(request, found):
            return found
        answer = self._gated(request)
        self._close_line(request, found, answer)
        return answer

    def _kept(self, request: PlacementRequest, existing: AllocatedShare) -> AllocationResult:
        """The place of an earlier review that nothing counts: a copy waits like any other pod."""
        is_gated = request.demands.is_gated
        found = (None if is_gated else self._passed_by(self._usage, request, existing)) or existing
        if not (is_gated or self._must_wait(request, found)):
            return found
        answer = self._passed_by(QuotaUsage(), request, existing) or existing.placed(waits_for_quota=True)
        self._close_line(request, found, answer)
        return answer

    def _must_wait(self, request: PlacementRequest, found: AllocationResult) -> bool:
        """Whether the policy lets the pod wait, and it is over a quota or others came before it."""
        quotas, demands = request.accounting.quotas, request.demands
        # Kubernetes allows no gate on a pod that names its node.
        can_wait = demands.when_over_quota == "wait" and not demands.constraints.node_name
        if not (quotas and can_wait) or self.line.state == "off":
            return False
        if isinstance(found, AllocatedShare):
            largest = self._largest_mib_for(request, found)
            return self.line.must_wait(quotas, self._need(request, found), largest)
        return isinstance(found, OverQuota)

    def _close_line(
        self, request: PlacementRequest, found: AllocationResult, answer: AllocationResult
    ) -> None:
        """Let nobody pass a pod that waits for a full quota from now on; not in a dry run."""
        waits = isinstance(answer, AllocatedShare) and request.accounting.reservation is not None
        if waits and isinstance(found, OverQuota):
            self.line.close(found.quota)

    def _gated(self, request: PlacementRequest) -> AllocationResult:
        """Where a pod waits, whatever has room: the shortest queue. A quota that is too small refuses it."""
        found = self._first_within(QuotaUsage(), request.with_demands(is_gated=True))
        return found.placed(waits_for_quota=True) if isinstance(found, AllocatedShare) else found

    def _pod_for(self, request: PlacementRequest, allocated: AllocatedShare) -> PodFact:
        return self._with_worth(expected_pod(request.accounting, allocated))

    def _need(self, request: PlacementRequest, allocated: AllocatedShare) -> Used:
        """What the pod adds to its quotas."""
        pod = self._pod_for(request, allocated)
        return Used(pod.counted_slices, 1, self._memory_of(pod))

    def _first_within(self, usage: QuotaUsage, request: PlacementRequest) -> AllocationResult:
        """The best place that exceeds no quota: how much a place counts depends on its kind of GPU."""
        options = self._choice.options(request)
        if isinstance(options, Unschedulable):
            return options
        refused: OverQuota | None = None
        for placement in options:
            allocated = request.share.allocated(placement)
            over = self._passed_by(usage, request, allocated)
            if over is None:
                return allocated
            refused = refused or over
        return refused or Unschedulable("there is no place to wait at")

    def _passed_by(
        self, usage: QuotaUsage, request: PlacementRequest, allocated: AllocatedShare
    ) -> OverQuota | None:
        """The first quota that the pod would exceed, by slices, pods or memory."""
        quotas = request.accounting.quotas
        if not quotas:
            return None
        need, largest = self._need(request, allocated), self._largest_mib_for(request, allocated)
        found = (exceeded(quota, usage.of(quota), need, largest) for quota in quotas)
        return next((over for over in found if over is not None), None)

    def _largest_mib_for(self, request: PlacementRequest, allocated: AllocatedShare) -> int:
        # `assume` describes nodes without MIG instances.
        assume = request.demands.assume if allocated.share.instance is None else None
        return max(self.largest_mib(), assume.gpu_mib if assume is not None else 0)

    def _is_counted(self, request: PlacementRequest, existing: AllocatedShare) -> bool:
        """Whether the pod is already counted, by its reservation of an earlier review."""
        accounting, name = request.accounting, existing.placement.reservation
        key = accounting.namespace, accounting.pod, existing.takes, existing.claimed
        return self._reservations.matches(name, key, accounting.reservation)

    def _lost_gate(self, request: PlacementRequest) -> bool:
        """Whether the pod's reservation waits for a quota, but another webhook removed our gate."""
        reservation = self._reservations.get(request.demands.reservation)
        return reservation is not None and reservation.claim.waits_for_quota and not request.demands.is_gated

    def _stays(self, request: PlacementRequest, existing: AllocatedShare) -> AllocatedShare | None:
        """The pod's existing placement; None if its memory was assumed and a node is known by now."""
        is_bound = bool(existing.takes) and existing.share.is_bound_by_memory
        if existing.placement.memory_values or not is_bound:
            return existing
        options = self._choice.options(request)
        if isinstance(options, Unschedulable):
            return existing
        if options[0].memory_values:
            return None
        return existing.placed(other_memory_values=options[0].other_memory_values)

    def _reservation_name(self, request: PlacementRequest, *, takes_room: bool) -> str | None:
        """The reservation's name; None if none is requested.

        If the pod already names a reservation that does not exist (after a restart), that name is used, so
        its annotation stays as it is. A claim takes no room: only quotas and `prefer` need to know of it.
        """
        accounting, former = request.accounting, request.demands.reservation
        if not (takes_room or accounting.quotas):
            return former
        if accounting.reservation is None:
            return None
        return accounting.reservation if former is None or self.is_reserved(former) else former

    def _learn(self, request: PlacementRequest, share: RequestedShare) -> None:
        """Learn from a pod that arrived: its share, and the classes of nodes that it accepts."""
        if not share.mode_type.prices_node_classes:
            return
        if share is not request.share:
            request = msgspec.structs.replace(request, share=share)
        per_gpu = share.fraction.slices_per_gpu
        expected = self._expected.get(per_gpu)
        if expected is None:
            expected = self._expected[per_gpu] = ExpectedPods(per_gpu)
        if expected.learn(share, self._finder.accepting(request)):
            self._node_index.set_prices(expected.renewed(self._node_index.classes.values()))
