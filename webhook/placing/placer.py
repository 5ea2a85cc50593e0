"""The source of placements: the ledger in this process, or the controller."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from ledger.ledger import Ledger
from ledger.placement_request import OverQuota, PlacementRequest, PlacementResult, Unschedulable
from webhook.admission.denial import Reason


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No placement could be decided, and none may be guessed."""

    reason: Reason
    why: str
    """One line for the user."""


Placed = PlacementResult | Unanswered
Unplaced = Unschedulable | OverQuota | Unanswered
"""Results without a placement."""


class Placer(Protocol):
    """Decides placement requests, one pod at a time."""

    def place(self, request: PlacementRequest) -> Placed | asyncio.Future[Placed]:
        """Return a result, now or later; GPUs are reserved if the request names a reservation."""

    def release(self, reservation: str) -> None:
        """Release the reservation of a pod that was denied afterwards."""


class LedgerPlacer:
    """A ledger in this process, without a cluster to watch: placements are permanent.

    Its reservations never expire: nothing reports when a pod ends.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def place(self, request: PlacementRequest) -> PlacementResult:
        """Return the placement of a request, or why there is none."""
        return self.ledger.place(request, now=0.0)

    def release(self, reservation: str) -> None:
        """Release the reservation."""
        self.ledger.release(reservation)
