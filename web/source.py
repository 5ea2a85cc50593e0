"""What the page shows, and who may see it: given by the process that serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from ledger.ledger import Ledger
from ledger.messages import DenialCount
from ledger.placement_request import Quota
from ledger.view import PendingView
from service.changes import Changes
from service.yielding import Turns


class PageSource(Protocol):
    """A ledger, and the names of nodes that change in it."""

    @property
    def ledger(self) -> Ledger: ...  # noqa: D102 - the words are those of the class
    @property
    def turns(self) -> Turns: ...  # noqa: D102

    @property
    def missing(self) -> str | None:
        """What the ledger waits for before it is whole; None when it is."""

    def subscribe(self) -> Changes:
        """Begin to note changes for one reader, with every node as changed; ends with `unsubscribe`."""

    def unsubscribe(self, changes: Changes) -> None:
        """Forget a reader; the inverse of `subscribe`."""


Denials = Callable[[], Sequence[DenialCount] | None]
"""Gives the denials of the last hour, the last first; None where the process knows of none."""


def _no_age(_namespace: str, _pod: str) -> str:
    return ""


async def _no_reason(_waiting: PendingView) -> str:
    return "waits for the scheduler"


def no_denials() -> None:
    """Return that of a process that neither denies nor is told."""


@dataclass(frozen=True, slots=True)
class About:
    """What the process knows beside the ledger; what it does not know keeps its default."""

    role: Callable[[], str]
    """Which process this is, and what it does at the moment."""
    created: Callable[[str, str], str] = _no_age
    """When a pod was created, by namespace and name, as RFC 3339; empty where that is not known."""
    why_waiting: Callable[[PendingView], Awaitable[str]] = _no_reason
    """Why a pod waits, in words."""
    quotas: Callable[[], Sequence[Quota]] = tuple
    denials: Denials = no_denials


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at the page."""

    namespace: str | None = None
    """The only one whose pods are shown by name; None for all."""


class PageRefusedError(Exception):
    """A viewer who sees nothing: HTTP status, and one line that ends with what to do."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Authorizer(Protocol):
    """Decides who sees what."""

    @property
    def asks(self) -> bool:
        """Whether a bearer token is needed. If not, the page answers on loopback alone."""

    async def authorize(self, token: str, namespace: str) -> Viewer:
        """Return what a token may see: all namespaces, or only the one that is asked for.

        Raises:
            PageRefusedError: it may see nothing, or nobody can say now.
        """


class LoopbackAuthorizer:
    """For a page that only processes of the machine, or of `kubectl port-forward`, can reach: all see all."""

    asks = False

    async def authorize(self, token: str, namespace: str) -> Viewer:  # noqa: ARG002 - as of any authorizer
        """Return a viewer of everything."""
        return Viewer()
