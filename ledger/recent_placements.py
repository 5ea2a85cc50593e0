"""Recent placements without a reservation of their own: summed up by kind, and forgotten soon.

Reservations per namespace are limited. If the pods beyond the limit were not counted, all of them would land
on the place that was best for the first one. A kind is a place and the quotas that count the pod, so memory
is bounded by nodes and policies, whatever users write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

import msgspec

from ledger.facts import PodFact
from ledger.gpu_memory import GpuMemory
from ledger.reservations import Reservation, ReservationKey

SECONDS = 5.0
"""A placement is counted for at least this long, and at most twice as long, unless its pod appears."""
MAX_KINDS = 2048
"""Kinds that start in one period; more are not counted. Pods under a quota have a bound of their own, so that
other pods cannot make quotas lose count."""
MAX_NAMES = 2**13
"""Pods of one period that are known by their reservations' names, at 250 bytes each. Further pods are counted
without a name, and counted twice if they are reviewed twice."""

_Place = tuple[str, str | None, tuple[tuple[int, int], ...], int]
_Rest = tuple[tuple[str, ...], tuple[str, ...] | None, bool, GpuMemory]
"""Queues, values of the memory label, whether the pods have names, and the GPU memory of one pod."""


class Book(Protocol):
    """The ledger, in which kinds are counted."""

    def add_many(self, claim: Reservation, unit: Reservation, pods: int) -> None:
        """Add the sum of pods that are alike; the inverse of `remove_many`."""

    def remove_many(self, claim: Reservation, unit: Reservation, pods: int) -> None:
        """Remove such a sum."""


class Many(msgspec.Struct, frozen=True, gc=False):
    """Pods of one kind."""

    unit: Reservation
    """One of the pods."""
    pods: int
    claim: Reservation
    """All of the pods as one claim; its name is never a review's."""


class _Awaited(msgspec.Struct, frozen=True, gc=False):
    """One pod of a kind, by digests: the texts themselves could be long, as users write them."""

    unit: Reservation
    """The pod's `Many.unit`."""
    pod: int
    """Digest of `Accounting.pod`."""
    matched_in: int | None = None
    """Digest of the review in which the pod matched."""


class _Generation:
    """Kinds that started in one period."""

    def __init__(self) -> None:
        self.kinds: dict[_Place, dict[_Rest, Many]] = {}
        self.awaited: dict[int, _Awaited] = {}
        """By digest of the reservation's name."""

    def __bool__(self) -> bool:
        return bool(self.kinds)


class RecentPlacements:
    """Two generations of kinds: the current and the previous one."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._generations: tuple[_Generation, ...] = (_Generation(), _Generation())
        self._began = 0.0
        self._kinds = Counter[bool]()
        """Kinds that started in this generation, by whether a quota counts them."""
        self._serial = 0

    def every(self) -> Iterator[Many]:
        """All kinds."""
        for generation in self._generations:
            for kinds in generation.kinds.values():
                yield from kinds.values()

    def has_room(self) -> bool:
        """Whether one more pod can be remembered by the name of its reservation."""
        return len(self._generations[-1].awaited) < MAX_NAMES

    def knows(self, name: str) -> bool:
        """Whether a pod with a reservation of this name is counted."""
        return self._found(name) is not None

    def add(self, unit: Reservation, name: str | None, *, has_quota: bool) -> None:
        """Count one more pod, under the name of its reservation if it has one."""
        generation = self._generations[-1]
        place, rest = _place(unit), _rest(unit, is_named=name is not None)
        former = generation.kinds.get(place, {}).get(rest)
        if former is None:
            if self._kinds[has_quota] >= MAX_KINDS:
                return
            self._kinds[has_quota] += 1
            self._serial += 1
        many = self._with_one_more(former, unit)
        self._replace(generation.kinds.setdefault(place, {}), rest, many)
        if name is not None:
            generation.awaited[hash(name)] = _Awaited(many.unit, hash(unit.pod))

    def matches(self, name: str | None, key: ReservationKey, review: str | None) -> bool:
        """Whether a counted pod is the one that was reviewed before; see `Reservations.matches`."""
        generation = self._found(name) if name is not None else None
        if generation is None:
            return False
        awaited = generation.awaited[hash(name)]
        namespace, pod, gpus, pooled = key
        unit, digest = awaited.unit, hash(review) if review is not None else None
        if (unit.namespace, awaited.pod, unit.gpus, unit.pooled) != (namespace, hash(pod), gpus, pooled):
            return False
        if awaited.matched_in is None and digest is not None:
            generation.awaited[hash(name)] = msgspec.structs.replace(awaited, matched_in=digest)
        return awaited.matched_in in {None, digest}

    def release(self, name: str) -> None:
        """Remove the pod whose reservation has this name, if it is counted."""
        generation = self._found(name)
        if generation is not None:
            unit = generation.awaited.pop(hash(name)).unit
            self._take_out(generation, _place(unit), _rest(unit, is_named=True))

    def retire(self, pod: PodFact) -> None:
        """Remove a pod that has appeared: the ledger now counts it as a pod."""
        if pod.reservation is not None:
            generation = self._found(pod.reservation)
            unit = generation.awaited[hash(pod.reservation)].unit if generation is not None else None
            if unit and (unit.namespace, unit.gpus, unit.pooled) == (pod.namespace, pod.gpus, pod.pooled):
                self.release(pod.reservation)
            return
        place = pod.namespace, pod.node or pod.promised_node, pod.gpus, pod.pooled
        for generation in self._generations:
            nameless = [rest for rest in generation.kinds.get(place, ()) if not rest[2]]
            if nameless:
                alike = (rest for rest in nameless if set(rest[0]) <= set(pod.queues))
                self._take_out(generation, place, next(alike, nameless[0]))
                return

    def expire(self, now: float) -> None:
        """Drop the previous generation once the current one has lasted `SECONDS`."""
        while now - self._began >= SECONDS and any(self._generations):
            former, latest = self._generations
            for kinds in former.kinds.values():
                for rest in list(kinds):
                    self._replace(kinds, rest, None)
            self._generations = latest, _Generation()
            self._began += SECONDS
            self._kinds.clear()
        if now - self._began >= SECONDS:
            self._began = now

    def _found(self, name: str) -> _Generation | None:
        digest = hash(name)
        for generation in self._generations:
            if digest in generation.awaited:
                return generation
        return None

    def _take_out(self, generation: _Generation, place: _Place, rest: _Rest) -> None:
        kinds = generation.kinds[place]
        self._replace(kinds, rest, _with_one_less(kinds[rest]))
        if not kinds:
            del generation.kinds[place]

    def _replace(self, kinds: dict[_Rest, Many], rest: _Rest, many: Many | None) -> None:
        former = kinds.pop(rest, None)
        if former is not None:
            self._book.remove_many(former.claim, former.unit, former.pods)
        if many is not None:
            kinds[rest] = many
            self._book.add_many(many.claim, many.unit, many.pods)

    def _with_one_more(self, former: Many | None, unit: Reservation) -> Many:
        if former is None:
            # Sums are kept by place, not by owner: there can be as many owners as pods.
            return Many(unit, 1, msgspec.structs.replace(unit, name=f"#{self._serial}", owner=""))
        claim = former.claim
        cpu, memory = claim.cpu_milli + unit.cpu_milli, claim.memory_bytes + unit.memory_bytes
        return Many(former.unit, former.pods + 1, _times(former, former.pods + 1, cpu, memory))


def _place(unit: Reservation) -> _Place:
    return unit.namespace, unit.promised_node, unit.gpus, unit.pooled


def _rest(unit: Reservation, *, is_named: bool) -> _Rest:
    return unit.queues, unit.memory_values, is_named, unit.gpu_memory


def _with_one_less(former: Many) -> Many | None:
    left, claim = former.pods - 1, former.claim
    if not left:
        return None
    cpu, memory = claim.cpu_milli * left // former.pods, claim.memory_bytes * left // former.pods
    return Many(former.unit, left, _times(former, left, cpu, memory))


def _times(many: Many, pods: int, cpu_milli: int, memory_bytes: int) -> Reservation:
    unit = many.unit
    return msgspec.structs.replace(
        many.claim,
        gpus=tuple([(index, slices * pods) for index, slices in unit.gpus]),
        pooled=unit.pooled * pods,
        slices=unit.slices * pods,
        cpu_milli=cpu_milli,
        memory_bytes=memory_bytes,
    )
