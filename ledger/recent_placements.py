"""What was placed lately without a reservation of its own: summed up by kind, and forgotten soon.

A namespace may hold only so many reservations. Were the pods beyond them not booked at all, they would all
land on the place that was best for the first of them. Here a kind is the place with the quotas that count the
pod, so that what is kept is bounded by nodes and policies, whatever authors of pods write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from ledger.facts import PodFact
from ledger.reservations import Reservation

SECONDS = 5.0
"""A placement is booked for so long at least, and for twice as long at most, unless its pod shows up."""
MAX_KINDS = 2048
"""That begin in one such time; more are not booked."""

_Place = tuple[str, str | None, tuple[tuple[int, int], ...], int]
_Rest = tuple[tuple[str, ...], tuple[str, ...] | None]


class Book(Protocol):
    """Where kinds are booked."""

    def enter_many(self, claim: Reservation, unit: Reservation, pods: int) -> None:
        """Book the sum of some pods that are alike; the inverse of `strike_many`."""

    def strike_many(self, claim: Reservation, unit: Reservation, pods: int) -> None:
        """Take such a sum out."""


class Many(msgspec.Struct, frozen=True, gc=False):
    """Pods of one kind."""

    unit: Reservation
    """One of them."""
    pods: int
    claim: Reservation
    """All of them as one; its name is no review's."""


class RecentPlacements:
    """Two generations of kinds: this one, and the one before."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._generations: tuple[dict[_Place, dict[_Rest, Many]], ...] = ({}, {})
        self._began = 0.0
        self._kinds = 0
        """That began in this generation."""
        self._serial = 0

    def every(self) -> Iterator[Many]:
        """All kinds."""
        for generation in self._generations:
            for kinds in generation.values():
                yield from kinds.values()

    def add(self, unit: Reservation) -> None:
        """Book one more pod."""
        generation, place, rest = self._generations[-1], _place(unit), (unit.queues, unit.memory_values)
        former = generation.get(place, {}).get(rest)
        if former is None:
            if self._kinds >= MAX_KINDS:
                return
            self._kinds += 1
            self._serial += 1
        self._replace(generation.setdefault(place, {}), rest, self._with_one_more(former, unit))

    def retire(self, pod: PodFact) -> None:
        """Take a pod out that has shown up, and is booked itself from now on."""
        place = pod.namespace, pod.node or pod.promised_node, pod.gpus, pod.pooled
        for generation in self._generations:
            kinds = generation.get(place)
            if kinds:
                rest = next((rest for rest in kinds if set(rest[0]) <= set(pod.queues)), next(iter(kinds)))
                self._replace(kinds, rest, _with_one_less(kinds[rest]))
                if not kinds:
                    del generation[place]
                return

    def expire(self, now: float) -> None:
        """Forget the generation before once this one has had its time."""
        while now - self._began >= SECONDS and any(self._generations):
            former, latest = self._generations
            for kinds in former.values():
                for rest in list(kinds):
                    self._replace(kinds, rest, None)
            self._generations = latest, {}
            self._began += SECONDS
            self._kinds = 0
        if now - self._began >= SECONDS:
            self._began = now

    def _replace(self, kinds: dict[_Rest, Many], rest: _Rest, many: Many | None) -> None:
        former = kinds.pop(rest, None)
        if former is not None:
            self._book.strike_many(former.claim, former.unit, former.pods)
        if many is not None:
            kinds[rest] = many
            self._book.enter_many(many.claim, many.unit, many.pods)

    def _with_one_more(self, former: Many | None, unit: Reservation) -> Many:
        if former is None:
            # Sums are kept by place and not by owner: there can be as many owners as pods.
            return Many(unit, 1, msgspec.structs.replace(unit, name=f"#{self._serial}", owner=""))
        claim = former.claim
        cpu, memory = claim.cpu_milli + unit.cpu_milli, claim.memory_bytes + unit.memory_bytes
        return Many(former.unit, former.pods + 1, _times(former, former.pods + 1, cpu, memory))


def _place(unit: Reservation) -> _Place:
    return unit.namespace, unit.promised_node, unit.gpus, unit.pooled


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
