"""Placements reserved at admission, until their pods appear or the reservations end."""

from __future__ import annotations

from collections import Counter, OrderedDict

import msgspec

from ledger.gpu_memory import NO_MEMORY, GpuMemory
from ledger.placement_request import Accounting, AllocatedShare
from modes.claim_name import NamedShare
from modes.facts import PodFact, QuotaWait
from modes.units import Amounts

LIFETIME_SECONDS = 5.0
"""How long a reservation without a pod takes room and counts for quotas. After that the API server has
probably rejected the pod."""
MAX_RESERVATIONS = 2**14
"""Of all pods under a quota, and of all others: the latest are kept. A client of the webhook can name any
number of pods: a namespace that has its share of them, or more, only ends its own."""


ReservationKey = tuple[str, str, Amounts, tuple[NamedShare, ...]]
"""Namespace and `pod` of the request, and what is reserved: amounts of resources, and claims."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The place of a pod that does not exist yet."""

    claim: PodFact
    """The pod as it will be, under the name of the reservation. What it claims takes no room, and only counts
    for quotas."""
    gpu_memory: GpuMemory = NO_MEMORY
    expires_at: float
    pod: str = ""
    """`Accounting.pod` of the pod that it was made for."""
    has_quota: bool = False

    @property
    def name(self) -> str:
        """Name given by the webhook; the pod has it in the annotation clearml-injector/reservation."""
        return self.claim.name

    @property
    def key(self) -> tuple[str, str, str]:
        """Key in the node accounts. It has three parts, so it never equals a pod's key."""
        return *self.claim.key, "reservation"

    @property
    def reservation_key(self) -> ReservationKey:
        """Identity of the pod, and what is reserved."""
        return self.claim.namespace, self.pod, self.claim.takes, self.claim.claimed

    def became(self, pod: PodFact) -> bool:
        """Whether the pod is the reserved one. Annotations can be copied, so all fields must agree."""
        own = self.name, self.claim.namespace, self.claim.takes, self.claim.claimed
        return (pod.reservation, pod.namespace, pod.takes, pod.claimed) == own


class Reservations:
    """All reservations, in the order in which they expire."""

    def __init__(self, most: int) -> None:
        self._most = most
        # The first entry of a plain dict is found only after stepping over all that were removed before it.
        self._by_name: OrderedDict[str, Reservation] = OrderedDict()
        self._counts: Counter[tuple[bool, str]] = Counter()
        """By whether a quota counts them, and by namespace."""
        self._matched_in: dict[str, str] = {}
        """The review in which a reservation matched, by its name."""

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str | None) -> Reservation | None:
        """The reservation of this name, if it exists."""
        return self._by_name.get(name) if name is not None else None

    def first_beyond(self, namespace: str, *, has_quota: bool) -> Reservation | None:
        """Return the reservation to end before a new one is added; None if there is room for it.

        It is the oldest of the namespace if that has its equal share of them, else the oldest of all.
        """
        if len(self._by_name) < self._most:
            return None
        alike = [(name, count) for (quota, name), count in self._counts.items() if quota == has_quota]
        every = sum([count for _, count in alike])
        if every < self._most:
            return None
        has_its_share = self._counts[has_quota, namespace] * len(alike) >= every
        return next(
            each
            for each in self._by_name.values()
            if each.has_quota == has_quota and (not has_its_share or each.claim.namespace == namespace)
        )

    def add(self, reservation: Reservation) -> None:
        """Add a reservation that expires last; the inverse of `remove`."""
        self._by_name[reservation.name] = reservation
        self._counts[reservation.has_quota, reservation.claim.namespace] += 1

    def remove(self, reservation: Reservation) -> None:
        """Remove a reservation; the inverse of `add`."""
        del self._by_name[reservation.name]
        key = reservation.has_quota, reservation.claim.namespace
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]
        self._matched_in.pop(reservation.name, None)

    def matches(self, name: str | None, pod: ReservationKey, review: str | None) -> bool:
        """Whether a reservation is of this pod, which was reviewed before. It matches in one review only.

        The API server may repeat that review after a broken connection. A dry run (None) does not count.
        """
        reservation = self.get(name)
        if reservation is None or reservation.reservation_key != pod:
            return False
        former = self._matched_in.get(reservation.name)
        if review is not None and former is None:
            self._matched_in[reservation.name] = review
        return former in {None, review}

    def first_expired(self, now: float) -> Reservation | None:
        """The first expired reservation; None if none has expired."""
        first = next(iter(self._by_name.values()), None)
        return first if first is not None and first.expires_at <= now else None


def expected_pod(accounting: Accounting, allocated: AllocatedShare) -> PodFact:
    """Return the pod that gets a share, as it will be watched; quotas count it as this."""
    share, placement, fraction = allocated.share, allocated.placement, allocated.share.fraction
    slices = fraction.slices if fraction.is_whole else fraction.slices_on_each
    exact = None if share.needs_agent else fraction.exact
    return PodFact(
        namespace=accounting.namespace,
        name=placement.reservation or "",
        is_reserved=True,
        promised_node=placement.node,
        takes=allocated.takes,
        claimed=allocated.claimed,
        cpu_milli=share.cpu_milli,
        memory_bytes=share.memory_bytes,
        extended=share.extended,
        products=placement.products,
        queues=accounting.queues,
        share=None if fraction.mib else exact or (slices, fraction.slices_per_gpu),
        asked_mib=share.asked_mib,
        sharing=len(fraction.split_mib) or 1,
        in_slices=share.needs_agent,
        memory_values=placement.memory_values or None,
        model=placement.model,
        owner=accounting.owner,
        quota_wait=QuotaWait("") if placement.waits_for_quota else None,
    )
