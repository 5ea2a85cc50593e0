"""What the page shows; the process that serves the page provides it."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from ledger.ledger import Ledger
from ledger.messages import DenialCount
from ledger.placement_request import Quota
from ledger.use import PodUses
from ledger.view import PendingView
from service.changes import Changes
from service.yielding import CooperativeYield
from web.links import Link


class PageSource(Protocol):
    """A ledger, and the names of its changed nodes."""

    @property
    def ledger(self) -> Ledger: ...  # noqa: D102 - the class describes it
    @property
    def yielding(self) -> CooperativeYield: ...  # noqa: D102

    @property
    def missing(self) -> str | None:
        """What the ledger waits for until it is complete; None if it is."""

    def subscribe(self) -> Changes:
        """Start to record changes for one reader, with every node as changed; ends with `unsubscribe`."""

    def unsubscribe(self, changes: Changes) -> None:
        """Forget a reader; the inverse of `subscribe`."""


class LocalSource:
    """A ledger that only this process changes: it reports reservations itself, and `mark` everything else."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.yielding = CooperativeYield()
        self.missing: str | None = None
        self._readers: list[Changes] = []
        ledger.on_promise = self.mark

    def subscribe(self) -> Changes:
        """Start to record changes for one reader, with every node as changed; ends with `unsubscribe`."""
        changes = Changes()
        for name in self.ledger.names():
            changes.mark(name)
        self._readers.append(changes)
        return changes

    def unsubscribe(self, changes: Changes) -> None:
        """Forget a reader; the inverse of `subscribe`."""
        self._readers.remove(changes)

    def mark(self, node: str | None) -> None:
        """Record that a node has changed; None stands for the waiting pods."""
        for reader in self._readers:
            reader.mark(node)


Denials = Callable[[], Sequence[DenialCount] | None]
"""Returns the denials of the last hour, the latest first; None if the process does not know them."""


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a pod waits."""

    cause: str
    """A few words, the same for all pods that wait for the same."""
    text: str = ""
    """One paragraph on this pod; empty if there is no more to say."""
    place: str = ""
    """Its place in the line of a quota, such as "2 of 5"; empty if it is in none."""


async def _no_reason(_waiting: PendingView) -> WaitingReason:
    return WaitingReason("waits for the scheduler")


@dataclass(frozen=True, slots=True)
class NodeNotes:
    """What is known of a node besides its account in the ledger."""

    is_held: bool = False
    """Whether its agent does not serve, so that a taint keeps new pods away."""
    unhealthy: frozenset[int] = frozenset()
    """Indices of GPUs that the node's agent reports as unhealthy."""


@dataclass(frozen=True, slots=True)
class AdmittedPod:
    """A pod that was admitted and has not appeared."""

    name: str = ""
    """Empty if unknown; ends with "*" if the API server completes it."""
    created: str = ""
    """When it was admitted, in RFC 3339; empty if unknown."""


def id_of(reservation: str) -> str:
    """Return what tells a reservation from others on the page, which does not show its name."""
    return hashlib.sha256(reservation.encode()).hexdigest()[:16]


class UnlimitedPrograms(msgspec.Struct, frozen=True, gc=False):
    """A container with programs on a GPU that run without their limiter."""

    node: str
    namespace: str
    pod: str
    container: str
    gpu: int
    mib: int
    """Of its share."""


def no_denials() -> None:
    """Return None, for a process that neither denies pods nor gets reports of denials."""


@dataclass(frozen=True, slots=True)
class About:
    """What the process knows besides the ledger; unknown fields keep their defaults."""

    role: Callable[[], str]
    """Which process this is, and what it is doing."""
    created: Callable[[str, str], str] = field(default=lambda _namespace, _pod: "")
    """When a pod was created, by namespace and name, in RFC 3339; empty if unknown."""
    why_waiting: Callable[[PendingView], Awaitable[WaitingReason]] = _no_reason
    quotas: Callable[[], Sequence[Quota]] = tuple
    denials: Denials = no_denials
    unlimited: Callable[[], tuple[Sequence[UnlimitedPrograms], int]] = field(default=lambda: ((), 0))
    """Programs without their limiter, by name, and how many containers have some."""
    use: Callable[[str], PodUses] = field(default=lambda _node: PodUses())
    """What pods use of their shares on a node, by its name; nothing if that is not measured."""
    notes: Callable[[str], NodeNotes] = field(default=lambda _node: NodeNotes())
    """What is known of a node, by its name."""
    admitted: Callable[[str], AdmittedPod] = field(default=lambda _reservation: AdmittedPod())
    """For which pod a reservation is, by the reservation's name."""
    cluster: str = ""
    """Name of the cluster, for people with several pages; empty for none."""
    links: tuple[Link, ...] = ()
