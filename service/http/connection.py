"""One client's connection: uvicorn's own, with limits on what the client sends and on its time.

This is the only module that knows uvicorn. It uses the class of its protocol, whose methods are the callbacks
of the transport and of the parser.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio import TimerHandle, Transport
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, NoReturn

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.http.acceptor import Acceptor, Place, Stage
from service.http.asgi import ON_LOST
from service.http.limits import BufferedBytes, Limits
from service.http.sockets import has_unread_data
from service.log import get_logger

DRAIN_SECONDS = 20
"""For requests in progress, after new connections are refused."""
_STRANGER = "your certificate is not valid for any name that this port admits: use the webhook's"
_UNREAD_SECONDS = 0.1
"""Time after which data that waits in the kernel has certainly been read."""
_DAY_SECONDS = 24 * 60 * 60


class _RefusedError(Exception):
    """Raised inside the parser to stop it."""


def is_admitted(certificate: Mapping[str, Any] | None, names: frozenset[str] | None) -> bool:
    """Whether a verified certificate, as ssl's `getpeercert` returns it, is for one of the DNS names.

    None admits all clients.
    """
    held = {value.lower() for kind, value in (certificate or {}).get("subjectAltName", ()) if kind == "DNS"}
    return names is None or not held.isdisjoint(map(str.lower, names))


class Server:
    """Serves one listener.

    Args:
        app: answers requests.
        bound: the listener's socket.
        tls: None for plain HTTP.
        limits: what a client can use.
        held: the requests that this process holds.
        clients: a client's certificate must be valid for one of these names; None admits all.
    """

    def __init__(  # noqa: PLR0913 the fields of a listener
        self,
        app: ASGIApp,
        bound: socket.socket,
        tls: ssl.SSLContext | None,
        *,
        limits: Limits,
        held: BufferedBytes,
        clients: frozenset[str] | None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.held = held
        self.clients = clients
        self.is_closing = False
        """Whether every answer ends its connection."""
        # A connection has its own idle time, which must end first.
        self.config = uvicorn.Config(
            app, interface="asgi3", ws="none", lifespan="off", log_config=None, log_level="error",
            access_log=False, proxy_headers=False, timeout_keep_alive=_DAY_SECONDS,
        )  # fmt: skip
        self.state = uvicorn.Server(self.config).server_state
        self.acceptor = Acceptor(bound, partial(Connection, self), tls, limits)

    async def stop(self) -> None:
        """Refuse new connections, and end those that are open after their answers."""
        self.is_closing = True
        self.acceptor.close()
        for connection in tuple(self.state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self.acceptor.wait_empty()
                await asyncio.gather(*self.state.tasks, return_exceptions=True)
        except TimeoutError:
            get_logger("connections").error("answers took too long", connections=self.acceptor.count)
            self.acceptor.end()


class Connection(HttpToolsProtocol):
    """One client's connection.

    | what a client does | what it gets |
    |---|---|
    | sends something that is not HTTP, or a request while one is in progress | 400 |
    | sends more than 100 headers, or a head over 32 KiB | 431 |
    | needs more than 2 s for a head or 2 s more for a body | 408 |
    | sends a large body while all bodies are at their limit, or the app does not read it in time | 503 |
    | is not admitted by name | 403 |
    | does not read its answer for 10 s, stays idle for 120 s | nothing |

    Then the connection closes. Once an answer has begun, the client gets no second one.
    """

    def __init__(self, server: Server, place: Place) -> None:
        self._lost: set[asyncio.Task[Any]] = set()
        """Tasks to cancel when the connection is lost."""
        super().__init__(server.config, server.state, {ON_LOST: self._lost})
        self.app = self._answer
        # Otherwise the parser skips, without limit, what follows a request that ends its connection.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=False)
        self._server = server
        self._limits = server.limits
        self._place = place
        self._received = 0
        """Bytes of the request, so far."""
        self._refusal = 400, "this is no HTTP request"
        self._is_over = False
        """Whether the connection is lost or refused."""
        self._timer: TimerHandle | None = None
        """Until what is expected has not come in time; None while nothing is expected."""

    # What the event loop calls

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] # TCP has only these
        """Wait for the first request."""
        super().connection_made(transport)
        self._place.opened(transport.abort)
        self._is_admitted = is_admitted(transport.get_extra_info("peercert"), self._server.clients)
        self._expect(self._limits.idle_seconds, self._end_idle)

    def data_received(self, data: bytes) -> None:
        """Parse the data, unless it is too much."""
        if self.transport.is_closing():
            return
        if self._place.stage in (Stage.SILENT, Stage.IDLE):
            self._received = 0
        self._received += len(data)
        super().data_received(data)
        if self._is_over:
            return
        stage = self._place.stage
        if stage is Stage.HEAD and self._received > self._limits.head_bytes:
            self._refuse(431, f"a head over {self._limits.head_bytes} bytes")
        elif stage >= Stage.BODY and self._received > self._limits.small_bytes:
            self._server.held.hold(self._shed, self._received, whole=stage is Stage.ANSWER)
        if stage in (Stage.HEAD, Stage.BODY) and self._timer is None:
            self._expect(self._limits.head_seconds, self._late_head)

    def pause_writing(self) -> None:
        """Give a client that does not read its answer some time to do so."""
        super().pause_writing()
        if not self._is_over:
            self._expect(self._limits.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue."""
        super().resume_writing()
        if self._place.stage is Stage.ANSWER and not self._is_over and not self.transport.is_closing():
            self._expect(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the reason does not matter
        """Release everything; what refers to the connection would keep 256 KiB of TLS buffer."""
        self._hang_up()
        self._expect(None)
        del self.app
        self._place.leave()

    # What the parser calls

    def on_message_begin(self) -> None:
        """Start a request, unless another one is in progress."""
        if self._place.stage not in (Stage.SILENT, Stage.IDLE):
            self._stop_parser(400, "one request at a time")
        if not self._is_admitted:
            self._stop_parser(403, _STRANGER)
        super().on_message_begin()
        self._place.enter(Stage.HEAD)
        self._expect(None)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, also one after a chunked body."""
        super().on_header(name, value)
        if len(self.headers) > self._limits.headers:
            self._stop_parser(431, f"over {self._limits.headers} headers")

    def on_headers_complete(self) -> None:
        """Let the app start, unless the head is too large."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self._limits.head_bytes:
            self._stop_parser(431, f"a head over {self._limits.head_bytes} bytes")
        super().on_headers_complete()
        self._place.enter(Stage.BODY)

    def on_message_complete(self) -> None:
        """Give the app time to answer."""
        super().on_message_complete()
        self._place.enter(Stage.ANSWER)
        self._expect(None)
        if self.parser.should_upgrade() or not self.parser.should_keep_alive():
            # Also if a trailer says so: the parser accepts nothing more.
            self.cycle.keep_alive = False

    def _stop_parser(self, status: int, text: str) -> NoReturn:
        self._refusal = status, text
        raise _RefusedError

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 ours says more
        """Refuse what stopped the parser."""
        self._refuse(*self._refusal)

    # What answers

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The next request may begin before the app returns.
        cycle = self.cycle

        async def relay(message: Message) -> None:
            # Of a request that is not whole, nobody wants the rest.
            if self._server.is_closing or self._place.stage is Stage.BODY:
                cycle.keep_alive = False
            await send(message)

        try:
            await self._server.app(scope, receive, relay)
        finally:
            if not cycle.response_complete and not self._is_over:
                # uvicorn answers 500 if it can, and closes.
                self._expect(self._limits.unread_seconds, self.transport.abort)

    def on_response_complete(self) -> None:
        """Wait for the next request, or close."""
        super().on_response_complete()
        if self._is_over:
            return
        self._server.held.release(self._shed)
        if self.transport.is_closing():
            self._close()
        else:
            self._place.enter(Stage.IDLE)
            self._expect(self._limits.idle_seconds, self._end_idle)

    def shutdown(self) -> None:
        """Close soon if no request is in progress; an answer to one ends its connection."""
        if self._place.stage < Stage.BODY:
            self._end_idle()

    def _shed(self) -> None:
        """Answer the request that is arriving with 503."""
        # An API server retries its request by itself, within its own timeout.
        self._refuse(503, "too many large requests are in progress: retry", b"retry-after: 1\r\n")

    def _late_head(self) -> None:
        if self._place.stage is Stage.HEAD:
            self._refuse(408, f"head incomplete after {self._limits.head_seconds} s")
        else:
            self._expect(self._limits.body_seconds, self._late_body)

    def _late_body(self) -> None:
        if self.transport.is_reading():
            self._refuse(408, f"body incomplete after {self._limits.body_seconds} s")
        else:
            self._shed()

    def _expect(self, seconds: float | None, otherwise: Callable[[], None] = lambda: None) -> None:
        """Call `otherwise` after `seconds`, unless something else is expected by then, or nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, otherwise)

    def _end_idle(self) -> None:
        """Close, unless the kernel already holds a request: that one is answered first."""
        if has_unread_data(self._place.socket):
            self._expect(_UNREAD_SECONDS, self._end_idle)
        else:
            self._close()

    def _refuse(self, status: int, text: str, header: bytes = b"") -> None:
        """Answer the request in place of the app, unless an answer has begun, and close."""
        cycle: Any = self.cycle  # None before the first request
        is_answering = cycle and cycle.response_started and not cycle.response_complete
        if not self._is_over and not is_answering:
            phrase = HTTPStatus(status).phrase.encode()
            self.transport.write(
                b"HTTP/1.1 %d %b\r\n%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%b\n" % (status, phrase, header, len(text) + 1, text.encode())
            )
        self._hang_up()
        self._close()

    def _hang_up(self) -> None:
        """End the request for uvicorn and the app."""
        if not self._is_over:
            self._is_over = True
            self._server.held.release(self._shed)
            # Without an exception, uvicorn ends its own timer too.
            super().connection_lost(None)
            while self._lost:
                self._lost.pop().cancel()

    def _close(self) -> None:
        """Close when everything is sent; abort a client that does not read it, or not answer TLS's end."""
        is_sent = self.transport.get_write_buffer_size() == 0
        self.transport.close()
        seconds = self._limits.closing_seconds if is_sent else self._limits.unread_seconds
        self._expect(seconds, self.transport.abort)
