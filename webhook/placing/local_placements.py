"""What a webhook has placed itself while the controller was away: sums by node, never single pods.

While the controller's stream is silent, nothing is forgotten, however long that lasts: nothing reports pods
that come or go. When the stream shows more usage on a node than before, that much of its sum has appeared.
The rest is forgotten some seconds after its placement if the stream was live since: the API server may have
rejected the pod. Sums have two generations, so that steady placement on a node does not keep old ones alive.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from ledger.facts import PodFact
from ledger.ledger import Ledger
from ledger.owners import Replicas
from ledger.placement_request import AllocatedShare, PlacementRequest
from ledger.reservations import COUNTED_SECONDS
from webhook.placing.replicas import KnownReplicas

MAX_REMEMBERED = 4096
"""The latest placements, which can be released."""
MAX_NAME = 128
"""Maximum length of a reservation's name to remember; a review's uid has 36 characters."""
FORGOTTEN_AT_ONCE = 128

Place = tuple[str | None, tuple[str, ...] | None]
"""A node; or None and the memory values that the pods require, for pods that wait for an index."""
Slices = Mapping[int | None, int]
"""By index; None stands for the pool."""


@dataclass(slots=True)
class _Sum:
    name: str
    slices: dict[int | None, int] = field(default_factory=dict)
    cpu_milli: int = 0
    memory_bytes: int = 0

    def fact(self, place: Place) -> PodFact:
        """Return the sum as one pod."""
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
        """Add one pod."""
        for index, count in slices.items():
            self.slices[index] = self.slices.get(index, 0) + count
        self.cpu_milli += cpu_milli
        self.memory_bytes += memory_bytes

    def remove(self, slices: Slices) -> dict[int | None, int]:
        """Remove slices, as far as present, and the same share of CPU and memory; return the missing ones."""
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
    """Namespace and Accounting.pod."""
    owner: str
    """Accounting.owner."""


class LocalPlacements:
    """Records in a ledger what was placed here, until it appears or is too old."""

    def __init__(self, ledger: Ledger, replicas: KnownReplicas) -> None:
        self._ledger = ledger
        self._replicas = replicas
        self._earlier: dict[Place, _Sum] = {}
        self._latest: dict[Place, _Sum] = {}
        self._last = 0.0
        """Time of the last placement."""
        self._earlier_last = -COUNTED_SECONDS
        """The same for `_earlier`."""
        self._placed: OrderedDict[str, _Placed] = OrderedDict()
        self._serial = 0
        self._appeared = self._forgotten = 0
        """Slices that have appeared, and that have not in time, since the latest generation began."""
        self.pods_appear = True
        """Whether what is placed here appears, judging by the last seconds with the stream."""

    def add(self, request: PlacementRequest, allocated: AllocatedShare, now: float) -> None:
        """Record one placement; the inverse of `release`."""
        placement, share, accounting = allocated.placement, allocated.share, request.accounting
        place = placement.node, None if placement.node else placement.memory_values or None
        slices: dict[int | None, int] = dict(allocated.gpus) if allocated.gpus else {None: allocated.pooled}
        found = self._latest.get(place)
        if found is None:
            self._serial += 1
            found = self._latest[place] = _Sum(f"placed here/{self._serial}")
        found.add(slices, share.cpu_milli, share.memory_bytes)
        self._last = now
        self._ledger.set_pod(found.fact(place))
        self._replicas.place(request, placement)
        if placement.reservation is not None and len(placement.reservation) <= MAX_NAME:
            self._placed[placement.reservation] = _Placed(
                place, slices, (accounting.namespace, accounting.pod), accounting.owner
            )
            if len(self._placed) > MAX_REMEMBERED:
                self._placed.popitem(last=False)

    def release(self, reservation: str) -> None:
        """Release one placement, if it is among the latest."""
        placed = self._placed.pop(reservation, None)
        if placed is not None:
            self._take_out(placed.place, placed.slices)
            indices = [Replicas.POOL if index is None else index for index in placed.slices]
            self._replicas.release(placed.place[0], placed.owner, indices)

    def release_former(self, request: PlacementRequest) -> None:
        """Release what an earlier review of the same pod placed, so that it is counted once."""
        former, accounting = request.demands.reservation, request.accounting
        placed = self._placed.get(former) if former is not None else None
        if former is not None and placed is not None and placed.pod == (accounting.namespace, accounting.pod):
            self.release(former)

    def appeared(self, node: str | None, slices: Slices) -> None:
        """Remove what the controller now reports; None stands for waiting pods."""
        left = {index: count for index, count in slices.items() if count > 0}
        for place in self._waiting_places() if node is None else [(node, None)]:
            if left:
                before = sum(left.values())
                left = self._take_out(place, left)
                self._appeared += before - sum(left.values())

    def forget(self, known_until: float) -> None:
        """Drop what should have appeared by `known_until`, a few sums at a time."""
        while known_until >= self._earlier_last + COUNTED_SECONDS:
            for place in list(islice(self._earlier, FORGOTTEN_AT_ONCE)):
                late = self._earlier.pop(place)
                self._forgotten += sum(late.slices.values())
                self._remove(place, late)
            if self._earlier or not self._latest:
                return
            self._earlier, self._latest, self._earlier_last = self._latest, {}, self._last
            self.pods_appear = self._forgotten <= self._appeared
            self._appeared = self._forgotten = 0

    def _waiting_places(self) -> list[Place]:
        sums = (*self._earlier, *(place for place in self._latest if place not in self._earlier))
        return [place for place in sums if place[0] is None]

    def _take_out(self, place: Place, slices: Slices) -> dict[int | None, int]:
        """Remove slices, earlier ones first; return those that are missing."""
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
