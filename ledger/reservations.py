"""Placements promised at admission, until their pods show up or their time is over."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

import msgspec

from ledger.accounts import ClaimKey
from ledger.facts import PodFact
from ledger.gpu_memory import NO_MEMORY, GpuMemory
from ledger.placement_request import Accounting, AllocatedShare

LIFETIME_SECONDS = 30.0
MAX_RESERVATIONS = 2**14
"""Of all namespaces together: whoever reaches the webhook can name as many as he likes."""
COUNTED_SECONDS = 5.0
"""How long a reservation without a pod takes room and is counted by quotas: the API server may have refused
the pod after all. For the rest of its time it only breaks ties, and its pod is known as its own."""


ReservationKey = tuple[str, str, tuple[tuple[int, int], ...], int]
"""Whom a reservation is for, namespace and `pod` of the request; what it holds, by index and of the pool."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A claim in the words of PodFact, before there is a pod."""

    name: str
    """As the webhook named it; the pod carries it in the annotation clearml-injector/reservation."""
    namespace: str
    promised_node: str | None
    """None when no node had room: the slices are backlog then."""
    gpus: tuple[tuple[int, int], ...]
    pooled: int
    slices: int
    """All slices promised, by index and pooled."""
    cpu_milli: int
    memory_bytes: int
    queues: tuple[str, ...]
    gpu_memory: GpuMemory = NO_MEMORY
    memory_values: tuple[str, ...] | None
    expires_at: float
    pod: str = ""
    """Accounting.pod of the pod that it was made for."""
    model: str | None = None
    owner: str = ""
    node: None = None
    is_reserved: bool = True

    @property
    def key(self) -> ClaimKey:
        """As books know it: unlike any pod's key, which has two parts."""
        return self.namespace, self.name, "reservation"

    @property
    def reservation_key(self) -> ReservationKey:
        """Whom it is for, and what it holds."""
        return self.namespace, self.pod, self.gpus, self.pooled

    def became(self, pod: PodFact) -> bool:
        """Whether the pod is what was promised: annotations can be copied, so everything has to agree."""
        return (pod.reservation, pod.namespace, pod.gpus, pod.pooled) == (
            self.name,
            self.namespace,
            self.gpus,
            self.pooled,
        )


class Reservations:
    """All reservations, in the order of their ends."""

    def __init__(self, most_per_namespace: int) -> None:
        self._most_per_namespace = most_per_namespace
        # The first of a plain dict is found by stepping over all that were removed before it.
        self._by_name: OrderedDict[str, Reservation] = OrderedDict()
        self._per_namespace: Counter[str] = Counter()
        self._counted: OrderedDict[str, Reservation] = OrderedDict()
        self._holding: OrderedDict[str, Reservation] = OrderedDict()
        """Those that take room."""
        self._stale: Counter[str] = Counter()
        """Those that do not any more, by namespace."""
        self._matched_in: dict[str, str] = {}
        """By name of the reservation the review that it has matched in."""

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str | None) -> Reservation | None:
        """The reservation of that name, if there is one."""
        return self._by_name.get(name) if name is not None else None

    def has_room(self, namespace: str) -> bool:
        """Whether the namespace may have one more; what nobody ever uses must not pile up."""
        return (
            self._per_namespace[namespace] < self._most_per_namespace
            and len(self._by_name) < MAX_RESERVATIONS
        )

    def add(self, reservation: Reservation) -> None:
        """Add a reservation that ends no earlier than all others; the inverse of `remove`."""
        name = reservation.name
        self._by_name[name] = self._counted[name] = self._holding[name] = reservation
        self._per_namespace[reservation.namespace] += 1

    def remove(self, reservation: Reservation) -> tuple[bool, bool]:
        """Remove a reservation; the inverse of `add`.

        Say whether quotas counted it until now, and whether it took room.
        """
        del self._by_name[reservation.name]
        self._matched_in.pop(reservation.name, None)
        _count(self._per_namespace, reservation.namespace, -1)
        was_counted = self._counted.pop(reservation.name, None) is not None
        held = self._holding.pop(reservation.name, None) is not None
        if not held:
            _count(self._stale, reservation.namespace, -1)
        return was_counted, held

    def stop_counting(self, now: float) -> Iterator[Reservation]:
        """Give the reservations that quotas count no more from now on."""
        return _taken_until(self._counted, now)

    def stop_holding(self, now: float) -> Iterator[Reservation]:
        """Give the reservations that take no room from now on."""
        for late in _taken_until(self._holding, now):
            _count(self._stale, late.namespace, 1)
            yield late

    def holds(self, name: str) -> bool:
        """Whether the reservation of that name takes room."""
        return name in self._holding

    def are_kept(self, namespace: str) -> bool:
        """Whether the reservations of a namespace become pods, as far as can be told.

        They do not where those whose pods have not come in time are more than those that are still awaited.
        """
        stale = self._stale.get(namespace, 0)
        return 2 * stale <= self._per_namespace.get(namespace, 0)

    def matches(self, name: str | None, pod: ReservationKey, review: str | None) -> bool:
        """Whether a reservation answers for a pod that was reviewed before: for the same pod, and once.

        The same review may come twice, after a broken connection. A dry run (None) uses nothing up.
        """
        reservation = self.get(name)
        if reservation is None or reservation.reservation_key != pod or reservation.name not in self._counted:
            return False
        former = self._matched_in.get(reservation.name)
        if review is not None and former is None:
            self._matched_in[reservation.name] = review
        return former in {None, review}

    def first_expired(self, now: float) -> Reservation | None:
        """A reservation whose time is over, None when there is none."""
        first = next(iter(self._by_name.values()), None)
        return first if first is not None and first.expires_at <= now else None


def _taken_until(begun: OrderedDict[str, Reservation], now: float) -> Iterator[Reservation]:
    """Take out those that began `COUNTED_SECONDS` before now or earlier."""
    until = now + LIFETIME_SECONDS - COUNTED_SECONDS
    while begun:
        first = next(iter(begun.values()))
        if first.expires_at > until:
            return
        del begun[first.name]
        yield first


def _count(counts: Counter[str], namespace: str, by: int) -> None:
    """Count up or down; what comes to nothing is forgotten."""
    counts[namespace] += by
    if not counts[namespace]:
        del counts[namespace]


def reservation_of(
    accounting: Accounting, allocated: AllocatedShare, name: str, now: float, gpu_memory: GpuMemory
) -> Reservation:
    """Return the reservation of what a pod gets."""
    share, placement = allocated.share, allocated.placement
    return Reservation(
        name=name,
        namespace=accounting.namespace,
        promised_node=placement.node,
        gpus=allocated.gpus,
        pooled=allocated.pooled,
        slices=share.slices,
        cpu_milli=share.cpu_milli,
        memory_bytes=share.memory_bytes,
        queues=accounting.queues,
        gpu_memory=gpu_memory,
        memory_values=placement.memory_values or None,
        expires_at=now + LIFETIME_SECONDS,
        pod=accounting.pod,
        model=placement.model,
        owner=accounting.owner,
    )
