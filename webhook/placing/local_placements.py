"""What a webhook has placed by itself while the controller was away: sums by node, never single pods.

Nothing is forgotten while the controller's stream is silent, however long that lasts: nobody tells whether a
pod came or went. When the stream tells of more on a node than before, that much of its sum has shown up. What
has not, some seconds after it was placed, is forgotten if the stream was heard since: the API server may have
refused it. Sums are kept in two generations, so that what is placed on a node all the time keeps nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from ledger.facts import PodFact
from ledger.ledger import Ledger
from ledger.owners import Replicas
from ledger.placement_request import Placement, PlacementRequest
from ledger.reservations import COUNTED_SECONDS
from webhook.placing.replicas import KnownReplicas

MAX_REMEMBERED = 4096
"""Placements that can be given back: the latest."""
MAX_NAME = 128
"""Characters of a reservation's name that is worth remembering: a review's uid has 36."""
FORGOTTEN_AT_ONCE = 128

Place = tuple[str | None, tuple[str, ...] | None]
"""A node; or None and the memory that the pods require, for those that wait for an index."""
Slices = Mapping[int | None, int]
"""By index; None stands for the pool."""


@dataclass(slots=True)
class _Sum:
    name: str
    slices: dict[int | None, int] = field(default_factory=dict)
    cpu_milli: int = 0
    memory_bytes: int = 0

    def fact(self, place: Place) -> PodFact:
        """All of it as one pod."""
        node, memory_values = place
        return PodFact(
            namespace="",
            name=self.name,
            node=node,
            gpus=tuple(sorted((index, count) for index, count in self.slices.items() if index is not None)),
            pooled=self.slices.get(None, 0),
            cpu_milli=self.cpu_milli,
            memory_bytes=self.memory_bytes,
            memory_values=memory_values,
            is_reserved=True,
        )

    def add(self, slices: Slices, cpu_milli: int, memory_bytes: int) -> None:
        """Count one more pod."""
        for index, count in slices.items():
            self.slices[index] = self.slices.get(index, 0) + count
        self.cpu_milli += cpu_milli
        self.memory_bytes += memory_bytes

    def remove(self, slices: Slices) -> dict[int | None, int]:
        """Take slices out, as many as there are, and the same part of CPU and memory; return the others."""
        before, missing = sum(self.slices.values()), {}
        for index, count in slices.items():
            left = self.slices.pop(index, 0) - count
            if left > 0:
                self.slices[index] = left
            elif left < 0:
                missing[index] = -left
        after = sum(self.slices.values())
        self.cpu_milli = self.cpu_milli * after // max(1, before)
        self.memory_bytes = self.memory_bytes * after // max(1, before)
        return missing


@dataclass(frozen=True, slots=True)
class _Placed:
    place: Place
    slices: Slices
    pod: tuple[str, str]
    """Namespace and PlacementRequest.pod."""
    owner: str
    """PlacementRequest.owner."""


class LocalPlacements:
    """Books in a ledger what was placed in it, until it shows up or is too old."""

    def __init__(self, ledger: Ledger, replicas: KnownReplicas) -> None:
        self._ledger = ledger
        self._replicas = replicas
        self._earlier: dict[Place, _Sum] = {}
        self._latest: dict[Place, _Sum] = {}
        self._last = 0.0
        """When something was placed last."""
        self._earlier_last = -COUNTED_SECONDS
        """The same of `_earlier`."""
        self._placed: OrderedDict[str, _Placed] = OrderedDict()
        self._serial = 0
        self._shown = self._forgotten = 0
        """Slices that have shown up, and that have not in time, since the latest generation began."""
        self.are_kept = True
        """Whether what is placed here shows up, as far as the last seconds with the stream tell."""

    def add(self, request: PlacementRequest, placement: Placement, now: float) -> None:
        """Book one placement; the inverse of `release`."""
        place = placement.node, None if placement.node else placement.memory_values or None
        gpus, pooled = request.taken_by(placement)
        slices: dict[int | None, int] = dict(gpus) if gpus else {None: pooled}
        found = self._latest.get(place)
        if found is None:
            self._serial += 1
            found = self._latest[place] = _Sum(f"placed here/{self._serial}")
        found.add(slices, request.cpu_milli, request.memory_bytes)
        self._last = now
        self._ledger.set_pod(found.fact(place))
        self._replicas.place(request, placement)
        if placement.reservation is not None and len(placement.reservation) <= MAX_NAME:
            self._placed[placement.reservation] = _Placed(
                place, slices, (request.namespace, request.pod), request.owner
            )
            if len(self._placed) > MAX_REMEMBERED:
                self._placed.popitem(last=False)

    def release(self, reservation: str) -> None:
        """Give one placement back, if it is among the latest."""
        placed = self._placed.pop(reservation, None)
        if placed is not None:
            self._take_out(placed.place, placed.slices)
            indices = [Replicas.POOL if index is None else index for index in placed.slices]
            self._replicas.release(placed.place[0], placed.owner, indices)

    def release_former(self, request: PlacementRequest) -> None:
        """Give back what the same pod was given in an earlier review, so that it is counted once."""
        former = request.keeps.reservation if request.keeps is not None else None
        placed = self._placed.get(former) if former is not None else None
        if former is not None and placed is not None and placed.pod == (request.namespace, request.pod):
            self.release(former)

    def shown_up(self, node: str | None, slices: Slices) -> None:
        """Take out what the controller tells of by now; None stands for pods that wait."""
        left = {index: count for index, count in slices.items() if count > 0}
        for place in self._waiting_places() if node is None else [(node, None)]:
            if left:
                before = sum(left.values())
                left = self._take_out(place, left)
                self._shown += before - sum(left.values())

    def forget(self, known_until: float) -> None:
        """Drop what should have shown up by a moment, a few sums at a time."""
        while known_until >= self._earlier_last + COUNTED_SECONDS:
            for place in list(islice(self._earlier, FORGOTTEN_AT_ONCE)):
                late = self._earlier.pop(place)
                self._forgotten += sum(late.slices.values())
                self._remove(place, late)
            if self._earlier or not self._latest:
                return
            self._earlier, self._latest, self._earlier_last = self._latest, {}, self._last
            self.are_kept = self._forgotten <= self._shown
            self._shown = self._forgotten = 0

    def _waiting_places(self) -> list[Place]:
        sums = (*self._earlier, *(place for place in self._latest if place not in self._earlier))
        return [place for place in sums if place[0] is None]

    def _take_out(self, place: Place, slices: Slices) -> dict[int | None, int]:
        """Take slices out, the earlier ones first; return those of which there are not so many."""
        left = dict(slices)
        for generation in (self._earlier, self._latest):
            found = generation.get(place)
            if found is not None and left:
                left = found.remove(left)
                if found.slices:
                    self._ledger.set_pod(found.fact(place))
                else:
                    del generation[place]
                    self._remove(place, found)
        return left

    def _remove(self, place: Place, gone: _Sum) -> None:
        self._ledger.remove_pod(("", gone.name))
        if place in self._earlier or place in self._latest:
            return
        if place[0] is not None:
            self._replicas.forget(place[0])
        elif not self._waiting_places():
            self._replicas.forget_waiting()
