"""Accepts the connections of one listener, up to a limit."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any

from service.http.limits import Limits
from service.http.sockets import has_unread_data
from service.log import get_logger

_BACKLOG = 2048
_FULL_SECONDS = 0.05
"""Until the next attempt, if all connections wait for answers."""
_EXHAUSTED_SECONDS = 1.0
"""Until the next attempt, if the system has no descriptors or memory left."""
_SECONDS_BETWEEN_WARNINGS = 60.0
_moments = itertools.count()


class Stage(IntEnum):
    """How far a connection's request is. Those of lower stages make room for others first."""

    HANDSHAKE = 0
    SILENT = 1
    """It has sent nothing yet."""
    HEAD = 2
    IDLE = 3
    """Its last request was answered."""
    BODY = 4
    ANSWER = 5
    """It makes room for nobody."""


class Place:
    """One connection's place among those of its listener."""

    end: Callable[[], object]
    """Closes the connection immediately."""

    def __init__(self, accepted: socket.socket, address: str, leave: Callable[[Place], None]) -> None:
        self.socket = accepted
        self.address = address
        self._leave = leave
        self.enter(Stage.HANDSHAKE)

    @property
    def holds_request(self) -> bool:
        """Whether a request came on an idle connection, and has not been read yet."""
        return self.stage is Stage.IDLE and has_unread_data(self.socket)

    def enter(self, stage: Stage) -> None:
        """Begin a stage."""
        self.stage = stage
        self.since = next(_moments)

    def opened(self, end: Callable[[], object]) -> None:
        """Begin the connection after its handshake; `end` closes it."""
        self.end = end
        self.enter(Stage.SILENT)

    def leave(self) -> None:
        """Give up the place of a connection that was lost, and forget the connection."""
        self._leave(self)
        del self.end


def _tried(place: Place, opening: asyncio.Task[Any]) -> None:
    """Forget a connection whose handshake failed or never began: that is not worth a log line."""
    has_failed = opening.cancelled() or opening.exception() is not None
    if has_failed and place.stage is Stage.HANDSHAKE:
        place.socket.close()
        place.leave()


class Acceptor:
    """Accepts connections.

    When the limit is reached, a new connection replaces one of the client address with the most connections:
    one that has sent no request, else the one idle for longest, else one that is still sending. A flood thus
    replaces its own connections, and not those of an API server. Connections whose request is being answered,
    or was not read yet, stay; if there are only those, new ones wait in the kernel.
    """

    def __init__(
        self,
        bound: socket.socket,
        make: Callable[[Place], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
        limits: Limits,
    ) -> None:
        """`make` creates the protocol of one connection, which opens and leaves its place."""
        self._socket = bound
        self.make = make
        self._tls = tls
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._places: dict[Place, None] = {}
        self._left = asyncio.Event()
        self._accepting: asyncio.Task[None] | None = None
        self._warned_at = -_SECONDS_BETWEEN_WARNINGS
        self._log = get_logger("connections")

    @property
    def count(self) -> int:
        """Number of open connections."""
        return len(self._places)

    def start(self) -> asyncio.Task[None]:
        """Begin to accept connections; the task ends only if that fails."""
        self._socket.settimeout(0)
        self._socket.listen(_BACKLOG)
        self._accepting = self._loop.create_task(self._accept())
        return self._accepting

    def close(self) -> None:
        """Stop accepting connections, and end handshakes."""
        if self._accepting is not None:
            self._accepting.cancel()
        self.end(Stage.HANDSHAKE)

    async def wait_empty(self) -> None:
        """Wait until no connection is open."""
        while self._places:
            self._left.clear()
            await self._left.wait()

    def end(self, last: Stage = Stage.ANSWER) -> None:
        """Close all connections immediately, or those up to a stage."""
        for place in [place for place in self._places if place.stage <= last]:
            place.end()

    async def _accept(self) -> None:
        with self._socket:
            while True:
                try:
                    accepted, address = await self._loop.sock_accept(self._socket)
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    self._log.warning("cannot accept connections", error=str(error))
                    await asyncio.sleep(_EXHAUSTED_SECONDS)
                    continue
                try:
                    while not self._make_room():  # noqa: ASYNC110 stages change without an event
                        await asyncio.sleep(_FULL_SECONDS)
                except asyncio.CancelledError:
                    accepted.close()
                    raise
                self._open(accepted, address[0])
                # asyncio accepts a waiting connection without a step of the loop.
                await asyncio.sleep(0)

    def _open(self, accepted: socket.socket, address: str) -> None:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        place = Place(accepted, address, self._leave)
        self._places[place] = None
        seconds = self._limits.handshake_seconds if self._tls is not None else None
        connecting = self._loop.connect_accepted_socket(
            partial(self.make, place), accepted, ssl=self._tls, ssl_handshake_timeout=seconds
        )
        opening = self._loop.create_task(connecting)
        opening.add_done_callback(partial(_tried, place))
        place.end = opening.cancel

    def _leave(self, place: Place) -> None:
        self._places.pop(place, None)
        self._left.set()

    def _make_room(self) -> bool:
        """Whether there is room for one more connection; closes another one if necessary."""
        if len(self._places) < self._limits.connections:
            return True
        of_address = Counter(place.address for place in self._places)
        ended = min(
            (place for place in self._places if place.stage is not Stage.ANSWER),
            key=lambda place: (-of_address[place.address], place.holds_request, place.stage, place.since),
            default=None,
        )
        if ended is None or ended.holds_request:
            return False
        self._leave(ended)
        ended.end()
        if self._loop.time() - self._warned_at >= _SECONDS_BETWEEN_WARNINGS:
            self._warned_at = self._loop.time()
            self._log.warning(
                "connection limit of a port reached: closing connections of the address that has the most",
                port=self._socket.getsockname()[1], connections=self._limits.connections,
                address=ended.address,
            )  # fmt: skip
        return True
