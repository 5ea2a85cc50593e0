"""Accepts the connections of one listener, up to a limit."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from service.http.limits import Limits
from service.log import get_logger

_AT_ONCE = 32
"""Connections accepted in a row before the loop does anything else."""
_FULL_SECONDS = 0.05
"""Until the next attempt, if all connections wait for answers."""
_EXHAUSTED_SECONDS = 1.0
"""Until the next attempt, if the system has no descriptors or memory left."""
_SECONDS_BETWEEN_WARNINGS = 60.0


class AcceptedConnection(Protocol):
    """The interface of a connection's protocol: `service.http.connection` or `service.http.plain_http`."""

    is_open: bool
    """Whether the handshake is complete."""
    served: int
    """Requests answered."""
    since: int
    """When it was opened, became idle, or its request began; a larger number is later."""
    on_lost: Callable[[], None]
    """Called when the connection is lost."""

    @property
    def transport(self) -> asyncio.Transport:
        """The transport, once the connection is open."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, except one whose head is incomplete."""

    @property
    def is_receiving(self) -> bool:
        """Whether part of a request was received."""

    @property
    def has_asked(self) -> bool:
        """Whether unread data in the kernel may be a request."""


@dataclass(eq=False, slots=True)
class _Open:
    """A connection, from its handshake on."""

    address: str
    connection: AcceptedConnection
    opening: asyncio.Task[None]

    @property
    def rank(self) -> tuple[int, int] | None:
        """The smallest is closed first to make room; None while a request is being answered."""
        connection = self.connection
        if connection.is_idle:
            return (connection.served > 0 and not connection.is_receiving, connection.since)
        return (2, connection.since) if connection.is_receiving else None

    def end(self) -> None:
        """Close the connection immediately."""
        if not self.opening.done():
            self.opening.cancel()
        elif self.connection.is_open:
            self.connection.transport.abort()


class Acceptor:
    """Accepts connections; uvicorn uses it as its asyncio server.

    When the limit is reached, a new connection replaces one of the client address with the most connections:
    one that has sent no request, else the one idle for longest, else one that is still sending. A flood thus
    replaces its own connections, and not those of an API server. Connections whose request is being answered
    stay; if there are only those, new ones wait in the kernel.
    """

    def __init__(
        self,
        bound: socket.socket,
        make: Callable[[], AcceptedConnection],
        tls: ssl.SSLContext | None,
        limits: Limits,
    ) -> None:
        """`make` creates the protocol of one connection."""
        self._socket = bound
        self._make = make
        self._tls = tls
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._open: dict[_Open, None] = {}
        self._accepted: tuple[socket.socket, Any] | None = None
        """An accepted connection for which there is no room yet."""
        self._resuming: asyncio.TimerHandle | None = None
        self._closed = False
        self._ended = 0
        self._warned_at = -_SECONDS_BETWEEN_WARNINGS
        self._log = get_logger("connections")

    @property
    def count(self) -> int:
        """Number of open connections."""
        return len(self._open)

    def start(self, backlog: int) -> None:
        """Begin to accept connections."""
        self._socket.settimeout(0)
        self._socket.listen(backlog)
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Stop accepting connections, and end handshakes."""
        self._closed = True
        self._loop.remove_reader(self._socket)
        if self._resuming is not None:
            self._resuming.cancel()
        if self._accepted is not None:
            self._accepted[0].close()
        for each in self._open:
            if not each.opening.done():
                each.end()

    async def wait_closed(self) -> None:
        """Wait until no handshake is in progress."""
        await asyncio.gather(*(each.opening for each in self._open), return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                self._accepted = accepted, address = self._accepted or self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log.warning("cannot accept connections", error=str(error))
                self._pause(_EXHAUSTED_SECONDS)
                return
            if not self._has_room():
                self._pause(_FULL_SECONDS)
                return
            self._accepted = None
            self._begin(accepted, address[0])

    def _begin(self, accepted: socket.socket, address: str) -> None:
        accepted.settimeout(0)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._make()
        opening = self._loop.create_task(self._handshake(accepted, connection))
        opened = _Open(address, connection, opening)
        connection.on_lost = lambda: self._forget(opened)
        self._open[opened] = None
        opening.add_done_callback(lambda _: self._opened(opened, accepted))

    async def _handshake(self, accepted: socket.socket, connection: AcceptedConnection) -> None:
        seconds = self._limits.handshake_seconds if self._tls is not None else None
        # A client's failed handshake is not worth a log line.
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(
                lambda: cast("asyncio.Protocol", connection),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
            )

    def _opened(self, opened: _Open, accepted: socket.socket) -> None:
        """Forget a connection whose handshake failed, or never began."""
        if not opened.connection.is_open:
            accepted.close()
            self._forget(opened)

    def _forget(self, opened: _Open) -> None:
        self._open.pop(opened, None)

    def _has_room(self) -> bool:
        """Whether there is room for one more connection; closes another one if necessary."""
        if len(self._open) < self._limits.connections:
            return True
        by_address = Counter(each.address for each in self._open)
        ranked = sorted(
            (-by_address[each.address], rank, number, each)
            for number, each in enumerate(self._open)
            if (rank := each.rank) is not None
        )
        if not ranked:
            return False
        # Of equally busy addresses, skip a client that has just sent a request, even if it is unread.
        most, *_, ended = ranked[0]
        as_busy = (each for count, *_, each in ranked if count == most)
        ended = next((each for each in as_busy if not each.connection.has_asked), ended)
        self._forget(ended)
        ended.end()
        self._warn(ended.address)
        return True

    def _warn(self, address: str) -> None:
        self._ended += 1
        now = self._loop.time()
        if now - self._warned_at >= _SECONDS_BETWEEN_WARNINGS:
            port = self._socket.getsockname()[1]
            self._log.warning(
                "connection limit of a port reached: closing connections of the address that has the most",
                port=port, connections=self._limits.connections, address=address, closed=self._ended,
            )  # fmt: skip
            self._warned_at, self._ended = now, 0

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._resuming = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._resuming = None
        if not self._closed:
            self._loop.add_reader(self._socket, self._accept)
            self._accept()
