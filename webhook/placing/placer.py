"""Where placements come from: the ledger in this process, or the controller."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from ledger.ledger import Ledger
from ledger.placement_request import PlacementRequest, PlacementResult
from webhook.admission.denial import Reason


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nobody could tell, and it must not be guessed."""

    reason: Reason
    why: str
    """One line for the user."""


Placed = PlacementResult | Unanswered


class Placer(Protocol):
    """Answers asks, one pod at a time."""

    def place(self, ask: PlacementRequest) -> Placed | asyncio.Future[Placed]:
        """Choose GPUs for a pod and reserve them, unless the ask names no reservation; now or later."""

    def release(self, reservation: str) -> None:
        """Give back what was reserved for a pod that was denied after all."""


class LedgerPlacer:
    """A ledger in this process, without a cluster to watch: what it places stays placed.

    Time stands still for its reservations: nobody tells it when a pod ends.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def place(self, ask: PlacementRequest) -> PlacementResult:
        """Ask the ledger."""
        return self.ledger.place(ask, now=0.0)

    def release(self, reservation: str) -> None:
        """Forget the reservation."""
        self.ledger.release(reservation)
