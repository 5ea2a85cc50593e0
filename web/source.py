"""What the page shows, and who may see it; the process that serves the page provides both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import msgspec

from ledger.ledger import Ledger
from ledger.messages import DenialCount
from ledger.placement_request import Quota
from ledger.use import ShareUse, UseKey
from ledger.view import PendingView
from service.changes import Changes
from service.yielding import CooperativeYield


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


def _no_age(_namespace: str, _pod: str) -> str:
    return ""


UsesOf = Callable[[str], Mapping[UseKey, ShareUse]]
"""Returns what pods use of their shares on a node, by its name; nothing if that is not measured."""


def _no_uses(_node: str) -> Mapping[UseKey, ShareUse]:
    return {}


def _nothing_unlimited() -> tuple[Sequence[UnlimitedPrograms], int]:
    return (), 0


async def _no_reason(_waiting: PendingView) -> str:
    return "waits for the scheduler"


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
    created: Callable[[str, str], str] = _no_age
    """When a pod was created, by namespace and name, in RFC 3339; empty if unknown."""
    why_waiting: Callable[[PendingView], Awaitable[str]] = _no_reason
    """Why a pod waits, as text."""
    quotas: Callable[[], Sequence[Quota]] = tuple
    denials: Denials = no_denials
    unlimited: Callable[[], tuple[Sequence[UnlimitedPrograms], int]] = _nothing_unlimited
    """Programs without their limiter, by name, and how many containers have some."""
    uses: UsesOf = _no_uses


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer of the page."""

    namespace: str | None = None
    """The only namespace whose pods are shown by name; None for all."""


class PageRefusedError(Exception):
    """A viewer may see nothing: HTTP status, and one line that ends with what to do."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Authorizer(Protocol):
    """Decides what a viewer may see."""

    @property
    def asks(self) -> bool:
        """Whether a bearer token is required. If not, the page serves only loopback."""

    async def authorize(self, token: str, namespace: str) -> Viewer:
        """Return what a token may see: all namespaces, or only the requested one.

        Raises:
            PageRefusedError: it may see nothing, or its rights cannot be checked now.
        """


class LoopbackAuthorizer:
    """For a page that only local processes and `kubectl port-forward` can reach: everyone sees everything."""

    asks = False

    async def authorize(self, token: str, namespace: str) -> Viewer:  # noqa: ARG002 - the interface's
        """Return a viewer of everything."""
        return Viewer()
