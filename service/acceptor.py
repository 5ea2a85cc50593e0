"""Accepts the connections of one listener, and never holds more of them than it may."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from service.limits import Limits
from service.log import get_logger

_AT_ONCE = 32
"""Connections accepted in one go, before the loop does anything else."""
_FULL_SECONDS = 0.05
"""Until the next look, where all connections wait for answers."""
_EXHAUSTED_SECONDS = 1.0
"""Until the next look, where the system has no descriptors or memory left."""
_SECONDS_BETWEEN_WARNINGS = 60.0


class AcceptedConnection(Protocol):
    """What the protocol of a connection says of itself: `service.connection`, or `service.plain_http`."""

    is_open: bool
    """Whether its handshake was done."""
    served: int
    """Requests answered."""
    since: int
    """When it was opened, became idle, or its request began: the larger, the later."""
    on_lost: Callable[[], None]
    """Called once the connection is gone."""

    @property
    def transport(self) -> asyncio.Transport:
        """The way to the client, once it is open."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way, but for one whose head has not come whole."""

    @property
    def is_receiving(self) -> bool:
        """Whether a part of a request has come."""

    @property
    def has_asked(self) -> bool:
        """Whether a request may be here already that the loop has not read."""


@dataclass(eq=False, slots=True)
class _Open:
    """A connection, its handshake included."""

    address: str
    connection: AcceptedConnection
    opening: asyncio.Task[None]

    @property
    def rank(self) -> tuple[int, int] | None:
        """The smaller, the sooner it is closed for another; None while it is answered."""
        connection = self.connection
        if connection.is_idle:
            return (connection.served > 0 and not connection.is_receiving, connection.since)
        return (2, connection.since) if connection.is_receiving else None

    def end(self) -> None:
        """Close it at once."""
        if not self.opening.done():
            self.opening.cancel()
        elif self.connection.is_open:
            self.connection.transport.abort()


class Acceptor:
    """Accepts connections; uvicorn takes it for its asyncio server.

    Whoever connects while all places are taken gets the place of a client of the address that holds the
    most: of one that has asked nothing, else of the one that is idle for the longest, else of one that is
    sending. So a flood takes places of its own, and not those of an API server. What is being answered
    stays; while that is all there is, newcomers wait in the kernel.
    """

    def __init__(
        self,
        bound: socket.socket,
        make: Callable[[], AcceptedConnection],
        tls: ssl.SSLContext | None,
        limits: Limits,
    ) -> None:
        """`make` makes the protocol of one connection."""
        self._socket = bound
        self._make = make
        self._tls = tls
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._open: dict[_Open, None] = {}
        self._accepted: tuple[socket.socket, Any] | None = None
        """One that there is no room for."""
        self._resuming: asyncio.TimerHandle | None = None
        self._closed = False
        self._ended = 0
        self._warned_at = -_SECONDS_BETWEEN_WARNINGS
        self._log = get_logger("connections")

    @property
    def count(self) -> int:
        """Connections open now."""
        return len(self._open)

    def start(self, backlog: int) -> None:
        """Begin to accept."""
        self._socket.settimeout(0)
        self._socket.listen(backlog)
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Accept no more, and end handshakes."""
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
        """Wait until no handshake is under way any more."""
        await asyncio.gather(*(each.opening for each in self._open), return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                self._accepted = accepted, address = self._accepted or self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log.warning("no connection can be accepted", error=str(error))
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
        # A stranger's handshake that fails is no news.
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
        """Whether there is room for one more, if need be by the end of another."""
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
        # Of clients that are as busy, whoever has just asked is no longer idle, read or not.
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
                "all connections of a port are taken: those of the address that holds the most are closed",
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
