"""What the page shows besides the nodes: sums, who waits and why, quotas, denials.

Computed for all viewers together, at most once a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import islice

import msgspec

from ledger.messages import DenialCount
from ledger.placement_request import Quota
from ledger.totals import CardTotals
from ledger.view import PendingView
from web.source import About, AdmittedPod, PageSource, UnlimitedPrograms, WaitingReason, id_of

KEPT_SECONDS = 1.0
MAX_WAITING = 100
"""Waiting pods; of any more, only the number is sent."""
MAX_QUOTAS = 100
"""The fullest quotas."""
MAX_UNLIMITED = 50
"""Containers that run without their limiter."""
_NO_ROOM = WaitingReason(
    "no node had room when it was admitted",
    "It was admitted when no node had room; its pod has not appeared yet.",
)
MAX_DENIALS = 50
"""Reasons by namespace: the latest."""


class WaitingRow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One pod or reservation without a node; without slices, a pod that claims cards from a DRA driver."""

    namespace: str
    name: str
    kind: str
    slices: int
    cause: str
    """A few words, the same for all that wait for the same."""
    why: str = ""
    """A paragraph on this pod."""
    created: str = ""
    queue: str = ""
    profile: str = ""
    """Profile of the MIG instance for which it waits."""
    id: str = ""
    """Of a reservation: as that of `HeldShare`."""
    place: str = ""
    """In the line of a quota, such as "2 of 5"."""


class QuotaUse(msgspec.Struct, frozen=True, gc=False):
    """One limit of a quota, and how much of it is used."""

    scope: str
    name: str
    unit: str
    used: int
    limit: int


class UnlimitedPanel(msgspec.Struct, frozen=True, gc=False):
    """Containers that run without their limiter."""

    containers: tuple[UnlimitedPrograms, ...]
    in_all: int
    """Containers; of many, only the first are listed."""


class Panels(msgspec.Struct, frozen=True, gc=False):
    """The tables next to the nodes, for one viewer."""

    role: str
    gpus: int
    capacity: int
    used: int
    free: int
    over: int
    waiting: tuple[WaitingRow, ...]
    waiting_in_all: int
    quotas: tuple[QuotaUse, ...]
    denials: tuple[DenialCount, ...] | None
    unlimited: UnlimitedPanel
    cards: Mapping[str, int] | None = None
    """`CardTotals` of all DRA drivers together; None without cards."""


class PanelMaker:
    """Computes panels while there are viewers."""

    def __init__(self, source: PageSource, about: About, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._about = about
        self._clock = clock
        self._lock = asyncio.Lock()
        self._kept: tuple[float, Panels] | None = None

    async def newest(self) -> Panels:
        """Return the panels, at most a second old."""
        async with self._lock:
            if self._kept is None or self._kept[0] <= self._clock():
                made = await self._make()
                self._kept = self._clock() + KEPT_SECONDS, made
            return self._kept[1]

    async def _make(self) -> Panels:
        totals, denials = self._source.ledger.totals(), self._about.denials()
        programs, count = self._about.unlimited()
        return Panels(
            role=self._about.role(),
            **totals._asdict(),
            waiting=await self._waiting(),
            waiting_in_all=self._source.ledger.pending_count(),
            quotas=await self._quotas(),
            denials=tuple(denials[:MAX_DENIALS]) if denials is not None else None,
            unlimited=UnlimitedPanel(tuple(programs[:MAX_UNLIMITED]), count),
            cards=self._cards(),
        )

    def _cards(self) -> Mapping[str, int] | None:
        of_drivers = self._source.ledger.card_totals().values()
        if not of_drivers:
            return None
        return CardTotals(*map(sum, zip(*of_drivers, strict=True)))._asdict()

    async def _waiting(self) -> tuple[WaitingRow, ...]:
        found = self._source.ledger.first_pending(MAX_WAITING)
        return tuple([await self._waiting_pod(pending, queue) for pending, queue in found])

    async def _waiting_pod(self, pending: PendingView, queue: str) -> WaitingRow:
        namespace = pending.namespace
        if pending.kind == "pod":
            why = await self._about.why_waiting(pending)
            pod = AdmittedPod(pending.name, self._about.created(namespace, pending.name))
        else:
            why, pod = _NO_ROOM, self._about.admitted(pending.name)
        return WaitingRow(
            namespace,
            pod.name,
            pending.kind,
            pending.slices,
            why.cause,
            why.text,
            pod.created,
            queue,
            pending.profile,
            "" if pending.kind == "pod" else id_of(pending.name),
            why.place,
        )

    async def _quotas(self) -> tuple[QuotaUse, ...]:
        found: list[QuotaUse] = []
        async for some in self._source.yielding.batches(self._about.quotas()):
            found += [use for quota in some for use in self._uses(quota)]
        found.sort(key=lambda use: (-use.used / max(1, use.limit), use.scope, use.name))
        return tuple(islice(found, MAX_QUOTAS))

    def _uses(self, quota: Quota) -> list[QuotaUse]:
        used = self._source.ledger.used_of(quota)
        mib = used.memory.at_most(self._source.ledger.largest_mib()) if quota.memory_mib is not None else 0
        limits = (
            ("slices", used.slices, quota.slices),
            ("pods", used.pods, quota.max_pods),
            ("MiB", mib, quota.memory_mib),
        )
        return [
            QuotaUse(quota.scope, quota.name, unit, used, limit)
            for unit, used, limit in limits
            if limit is not None
        ]
