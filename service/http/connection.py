"""One client's connection: checks and limits what the client sends before uvicorn sees it.

A parser of its own says where requests begin and end, ASGI's messages where answers do.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from http import HTTPStatus
from typing import NoReturn

import httptools
from starlette.types import Message, Receive, Scope, Send

from service.http.acceptor import Place, Stage
from service.http.asgi import CLOSE
from service.http.client_names import is_admitted
from service.http.sockets import has_unread_data
from service.http.terms import Terms

_RETRY = b"retry-after: 1\r\n"
"""Makes an API server retry its request by itself, within its own timeout."""
_CROWDED = "too many large requests are in progress: retry"
_STRANGER = "your certificate is not valid for any name that this port admits: use the webhook's"
_UNREAD_SECONDS = 0.1
"""Time after which data that waits in the kernel has certainly been read."""


class _RefusedError(Exception):
    """Raised inside the parser to stop it."""


class Connection(asyncio.Protocol):
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

    def __init__(self, terms: Terms, place: Place) -> None:
        self._terms = terms
        self._limits = terms.limits
        self._place = place
        self._loop = asyncio.get_running_loop()
        self._received = self._head_bytes = self._headers = 0
        """Of the request, so far."""
        self._refusal = 400, "this is no HTTP request"
        self._has_begun = False
        """Whether the answer has begun."""
        self._is_last = False
        """Whether the connection closes after the answer."""
        self._timer: TimerHandle | None = None
        self._due = 0.0
        self._overdue: Callable[[], None] | None = None
        """Called when the expected input has not arrived in time; None while nothing is expected."""
        self._lost_calls: set[Callable[[], object]] = set()
        self._uvicorn: asyncio.Protocol | None = None
        """None once the connection is lost or refused."""

    # What the event loop calls

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] # TCP has only these
        """Wait for the first request."""
        self._transport = transport
        self._place.opened(transport)
        self._place.stop = self._stop
        self._is_admitted = is_admitted(transport.get_extra_info("peercert"), self._terms.clients)
        self._parser = httptools.HttpRequestParser(self)
        self._uvicorn = self._terms.uvicorn(self.answer, self._lost_calls)
        self._uvicorn.connection_made(transport)
        self._expect(self._limits.idle_seconds, self._end_idle)

    def data_received(self, data: bytes) -> None:
        """Give uvicorn the data, unless it is too much or no HTTP."""
        if self._transport.is_closing():
            return
        if self._place.stage in (Stage.SILENT, Stage.IDLE):
            self._received = 0
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_last = True
        except httptools.HttpParserError:
            self._refuse(*self._refusal)
        self._limit()
        if self._uvicorn is not None:
            self._uvicorn.data_received(data)
            if self._transport.is_closing():
                self._close()

    def pause_writing(self) -> None:
        """Give a client that does not read its answer some time to do so."""
        if self._uvicorn is not None:
            self._uvicorn.pause_writing()
            self._expect(self._limits.unread_seconds, self._transport.abort)

    def resume_writing(self) -> None:
        """Continue."""
        if self._uvicorn is not None:
            self._uvicorn.resume_writing()
            if not self._transport.is_closing():
                self._overdue = None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the reason does not matter
        """Release everything; what refers to the connection would keep 256 KiB of TLS buffer."""
        self._hang_up()
        self._overdue = None
        if self._timer is not None:
            self._timer.cancel()
        del self._parser
        self._place.leave()

    # What the parser calls

    def on_message_begin(self) -> None:
        """Start a request, unless another one is in progress."""
        if self._place.stage not in (Stage.SILENT, Stage.IDLE):
            self._stop_parser(400, "one request at a time")
        if not self._is_admitted:
            self._stop_parser(403, _STRANGER)
        self._place.enter(Stage.HEAD)
        self._head_bytes = self._headers = 0
        self._overdue = None

    def on_url(self, url: bytes) -> None:
        """Count a part of the request line."""
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, also one after a chunked body."""
        self._head_bytes += len(name) + len(value) + len(": \r\n")
        self._headers += 1
        if self._headers > self._limits.headers:
            self._stop_parser(431, f"over {self._limits.headers} headers")

    def on_headers_complete(self) -> None:
        """Let the app start, unless the head is too large."""
        if self._head_bytes > self._limits.head_bytes:
            self._stop_parser(431, f"a head over {self._limits.head_bytes} bytes")
        self._place.enter(Stage.BODY)

    def on_message_complete(self) -> None:
        """Give the app time to answer."""
        self._place.enter(Stage.ANSWER)
        self._overdue = None
        if not self._parser.should_keep_alive():
            # Also if a trailer says so: the parser accepts nothing more.
            self._is_last = True

    def _stop_parser(self, status: int, text: str) -> NoReturn:
        self._refusal = status, text
        raise _RefusedError

    # What uvicorn calls

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app, and follow its answer."""
        is_whole = False

        async def relay(message: Message) -> None:
            nonlocal is_whole
            if message["type"] == "http.response.start":
                message = self._begin_answer(message)
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                is_whole = True
                self._end_answer()

        task = asyncio.current_task()
        self._terms.running.add(task)
        try:
            await self._terms.app(scope, receive, relay)
        finally:
            self._terms.running.discard(task)
            if not is_whole and self._uvicorn is not None:
                # uvicorn answers 500 if it can, and closes.
                self._expect(self._limits.unread_seconds, self._transport.abort)

    def _begin_answer(self, message: Message) -> Message:
        self._has_begun = True
        if self._place.stage is not Stage.ANSWER:
            # The rest of the request's body is not wanted.
            self._is_last = True
            self._place.enter(Stage.ANSWER)
            self._overdue = None
        headers = message.get("headers", ())
        if CLOSE in headers or not (self._is_last or self._terms.is_closing):
            return message
        return {**message, "headers": [*headers, CLOSE]}

    def _end_answer(self) -> None:
        if self._uvicorn is None:
            return
        self._has_begun = False
        self._terms.held.release(self._shed)
        if self._is_last or self._transport.is_closing():
            self._close()
        else:
            self._place.enter(Stage.IDLE)
            self._expect(self._limits.idle_seconds, self._end_idle)

    def _limit(self) -> None:
        """Limit a request that is incomplete or waits for its answer."""
        stage = self._place.stage
        if stage is Stage.HEAD and self._received > self._limits.head_bytes:
            self._refuse(431, f"a head over {self._limits.head_bytes} bytes")
        elif stage >= Stage.BODY and self._received > self._limits.small_bytes and self._uvicorn is not None:
            self._terms.held.hold(self._shed, self._received, whole=stage is Stage.ANSWER)
        if stage in (Stage.HEAD, Stage.BODY) and self._overdue is None:
            self._expect(self._limits.head_seconds, self._late_head)

    def _shed(self) -> None:
        """Answer the request that is arriving with 503: an API server retries after a second."""
        self._refuse(503, _CROWDED, _RETRY)

    def _late_head(self) -> None:
        if self._place.stage is Stage.HEAD:
            self._refuse(408, f"head incomplete after {self._limits.head_seconds} s")
        else:
            self._expect(self._limits.body_seconds, self._late_body)

    def _late_body(self) -> None:
        if self._transport.is_reading():
            self._refuse(408, f"body incomplete after {self._limits.body_seconds} s")
        else:
            self._shed()

    def _expect(self, seconds: float, otherwise: Callable[[], None]) -> None:
        """Call `otherwise` after `seconds`, unless something else is expected by then.

        All waits share one timer. Input that comes in time does not move it, as most requests would.
        """
        self._overdue, self._due = otherwise, self._loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        if self._overdue is not None and self._due > self._loop.time():
            self._timer = self._loop.call_at(self._due, self._look_at_time)
        elif self._overdue is not None:
            overdue, self._overdue = self._overdue, None
            overdue()

    def _stop(self) -> None:
        """Close soon if no request is in progress, else after its answer."""
        self._is_last = True
        if self._place.stage < Stage.BODY:
            self._end_idle()

    def _end_idle(self) -> None:
        """Close, unless the kernel already holds a request: that one is answered first."""
        if has_unread_data(self._place.socket):
            self._expect(_UNREAD_SECONDS, self._end_idle)
        else:
            self._close()

    def _refuse(self, status: int, text: str, header: bytes = b"") -> None:
        """Answer the request in place of the app, unless an answer has begun, and close."""
        if self._uvicorn is not None and not self._has_begun:
            phrase = HTTPStatus(status).phrase.encode()
            self._transport.write(
                b"HTTP/1.1 %d %b\r\n%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%b\n" % (status, phrase, header, len(text) + 1, text.encode())
            )
        self._hang_up()
        self._close()

    def _hang_up(self) -> None:
        """End the request for uvicorn and the app."""
        if self._uvicorn is not None:
            self._terms.held.release(self._shed)
            # Without an exception, uvicorn ends its own timer too.
            self._uvicorn.connection_lost(None)
            self._uvicorn = None
            for call in tuple(self._lost_calls):
                call()

    def _close(self) -> None:
        """Close when everything is sent; abort a client that does not read it, or not answer TLS's end."""
        is_sent = self._transport.get_write_buffer_size() == 0
        self._transport.close()
        seconds = self._limits.closing_seconds if is_sent else self._limits.unread_seconds
        self._expect(seconds, self._transport.abort)
