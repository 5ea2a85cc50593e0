"""uvicorn's HTTP protocol for untrusted clients: one request at a time, limited in bytes and in seconds."""

from __future__ import annotations

import http
import itertools
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.http.asgi import ON_LOST
from service.http.buffered_bytes import BufferedBytes
from service.http.client_names import forbid
from service.http.limits import Limits
from service.http.sockets import has_unread_data

_RETRY = b"retry-after: 1\r\n"
"""Makes an API server retry its request by itself, within its own timeout."""
_CROWDED = "too many large requests are in progress: retry"
_moments = itertools.count()
_UNREAD_SECONDS = 0.1
"""Time after which data that waits in the kernel has certainly been read."""
_NOTICE_SECONDS = 0.1
"""Between checks whether everything was sent."""


class _UnwantedError(Exception):
    """Raised inside the parser to stop it."""


class Connection(HttpToolsProtocol):
    """One client's connection.

    | what a client does | what it gets |
    |---|---|
    | starts a request while one is in progress | the answer to the first one, then the connection closes |
    | sends more than 100 headers, or a head over 32 KiB | 431 |
    | needs more than 2 s for a head or 2 s more for a body | 408 |
    | sends something that is not HTTP | 400 |
    | sends a large body while all bodies are at their limit, or the app does not read it in time | 503 |
    | does not read its answer for 10 s, stays idle for 120 s | the connection closes |
    | is not admitted by name | 403 |

    Once an answer has begun, the client gets no second one: the connection just closes.
    """

    def __init__(
        self,
        *args: Any,
        limits: Limits | None = None,
        held: BufferedBytes | None = None,
        admits: Callable[[Transport], bool] | None = None,
        **kwargs: Any,
    ) -> None:
        """All connections of a process share `held`; `admits` checks the client's certificate."""
        super().__init__(*args, **kwargs)
        self._limits = limits or Limits()
        self._held = held or BufferedBytes(self._limits.held_bytes)
        self._admits = admits
        self._receiving = False
        """Whether a request has begun to arrive and is incomplete."""
        self._in_head = False
        self._completed = False
        """Whether a request became complete in the data that is being read."""
        self._received = 0
        """Bytes of the request received so far."""
        self._is_held = False
        self._ignores_input = False
        """Whether the rest of the input is ignored."""
        self._refusal: tuple[int, str] | None = None
        self._is_pipelined = False
        self._timer: TimerHandle | None = None
        self._timer_at = 0.0
        self._due = 0.0
        self._overdue: Callable[[], None] | None = None
        """Called when the expected input has not arrived in time; None while nothing is expected."""
        self._unread: TimerHandle | None = None
        self.is_open = False
        """Whether the handshake is complete."""
        self.is_admitted = True
        self._lost_calls: set[Callable[[], object]] = set()
        """Called when the connection is lost, for requests in progress."""
        self.app_state[ON_LOST] = self._lost_calls
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the connection is lost."""
        self.served = 0
        """Requests answered."""
        self.since = next(_moments)
        """When it was opened, became idle, or its request began; a larger number is later."""

    # What the event loop calls

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Wait for the first request."""
        super().connection_made(transport)
        self.is_open = True
        if self._admits is not None and not self._admits(transport):
            self.is_admitted, self.app = False, forbid
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Read the data, as long as input is wanted."""
        if self._ignores_input:
            self._pause()
            return
        if not self._receiving:
            self._received = 0
        self._received += len(data)
        self._completed = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._end_after_answer()
        except httptools.HttpParserError:
            self._stop_reading()
        else:
            self._bound_request()

    def pause_writing(self) -> None:
        """Give a client that does not read its answer some time to do so."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue."""
        super().resume_writing()
        self._end_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything; a timer would keep the connection alive, with 256 KiB of TLS buffer."""
        super().connection_lost(exc)
        for call in tuple(self._lost_calls):
            call()
        self._release()
        self._end_unread()
        self._overdue = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.on_lost()

    def shutdown(self) -> None:
        """Close an idle connection soon, even if its client does not respond; else after its answer."""
        if self.is_idle:
            self._end_idle()
            return
        self.cycle.keep_alive = False
        if self._receiving:
            self._expect(self._limits.last_seconds, self._late_for_good)

    # What the parser calls

    def on_message_begin(self) -> None:
        """Start a request; while another one is in progress, do not read it at all."""
        if self._completed or not self.is_idle:
            self._is_pipelined = True
            raise _UnwantedError
        self._receiving = self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Accept a header; ignore trailers."""
        if not self._in_head:
            return
        if len(self.headers) >= self._limits.headers:
            self._refuse_head(f"over {self._limits.headers} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Let the app start, unless the head is too large."""
        self._in_head = False
        limit = self._limits.head_bytes
        if self._received > limit and self._head_size() > limit:
            self._refuse_head(f"a head over {limit} bytes")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Give the app the end of the request."""
        self._receiving, self._completed = False, True
        self._overdue = None
        if self._is_held:
            self._hold(whole=True)
        if not self.parser.should_keep_alive():
            # A trailer may have ended it: the parser accepts nothing more, so no request may wait for it.
            self.cycle.keep_alive = False
        super().on_message_complete()

    # What an answer calls

    def on_response_complete(self) -> None:
        """Wait for the next request, or close the connection if this was its last answer."""
        self.server_state.total_requests += 1
        self.served += 1
        self._release()
        if self.transport.is_closing():
            self._abort_soon()
        elif self._receiving:
            # The rest of the request's body is not wanted.
            self._close()
        else:
            self.flow.resume_reading()
            self._await_request()

    # For code that decides about the connection

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, except one whose head is incomplete."""
        # uvicorn's types do not say that there may be no cycle yet.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    @property
    def is_receiving(self) -> bool:
        """Whether part of a request was received."""
        return self._receiving

    @property
    def has_asked(self) -> bool:
        """Whether unread data in the kernel may be a request."""
        return self.is_open and self.is_idle and not self._receiving and has_unread_data(self.transport)

    def shed(self) -> None:
        """Answer the request that is arriving with 503: an API server retries after a second."""
        self._is_held = False
        self._refuse(503, _CROWDED, _RETRY)

    # Bounds

    def _bound_request(self) -> None:
        """Limit a request that is incomplete or waits for its answer."""
        if self._ignores_input:
            return
        if not self._receiving:
            if self._received > self._limits.small_bytes and not self.is_idle:
                self._hold(whole=True)
            return
        if self._overdue not in (self._late_head, self._late_body):
            self.since = next(_moments)
            self._expect(self._limits.head_seconds, self._late_head)
        if self._in_head and self._received > self._limits.head_bytes:
            self._refuse(431, f"a head over {self._limits.head_bytes} bytes")
        elif self._received > self._limits.small_bytes:
            self._hold(whole=False)

    def _late_head(self) -> None:
        if self._in_head:
            self._refuse(408, f"head incomplete after {self._limits.head_seconds} s")
        else:
            self._expect(self._limits.body_seconds, self._late_body)

    def _late_body(self) -> None:
        if self.flow.read_paused:
            self._refuse(503, _CROWDED, _RETRY)
        else:
            self._refuse(408, f"body incomplete after {self._limits.body_seconds} s")

    def _late_for_good(self) -> None:
        self._refuse(503, "this process is stopping: retry", _RETRY)

    def _hold(self, *, whole: bool) -> None:
        self._is_held = True
        self._held.hold(self, self._received, whole=whole)

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._held.release(self)

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    # Time

    def _await_request(self) -> None:
        self.since = next(_moments)
        self._expect(self._limits.idle_seconds, self._end_idle)

    def _expect(self, seconds: float, otherwise: Callable[[], None]) -> None:
        """Call `otherwise` after `seconds`, unless something else is expected by then.

        All waits share one timer. Input that comes in time does not move it, as most requests would.
        """
        self._overdue, self._due = otherwise, self.loop.time() + seconds
        if self._timer is not None and self._timer_at > self._due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer_at = self._due
            self._timer = self.loop.call_later(seconds, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        if self._overdue is None or self.transport.is_closing():
            return
        if self._due > self.loop.time():
            self._expect(self._due - self.loop.time(), self._overdue)
        else:
            self._overdue()

    def _end_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    # Ends

    def _end_idle(self) -> None:
        """Close, unless the kernel already holds a request: that one is answered first."""
        if has_unread_data(self.transport):
            self._expect(_UNREAD_SECONDS, self._end_idle)
        else:
            self._close()

    def _refuse_head(self, text: str) -> None:
        self._refusal = 431, text
        raise _UnwantedError

    def _stop_reading(self) -> None:
        """Do what the parser was stopped for."""
        if self._is_pipelined:
            self._end_after_answer()
        else:
            self._refuse(*(self._refusal or (400, "Invalid HTTP request received.")))

    def _end_after_answer(self) -> None:
        """Read nothing more, and close when the current request is answered."""
        self._ignores_input = True
        if self.is_idle:
            self._close()
        else:
            self.cycle.keep_alive = False
            self._pause()

    def _pause(self) -> None:
        if not self.transport.is_closing():
            self.flow.pause_reading()

    def _refuse(self, status: int, text: str, header: bytes = b"") -> None:
        """Answer the request in place of the app, unless the app's answer has begun, and close."""
        self._ignores_input = True
        self._release()
        if self.is_idle or not self.cycle.response_started:
            phrase = http.HTTPStatus(status).phrase.encode()
            self.transport.write(
                b"HTTP/1.1 %d %b\r\n%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%b\n" % (status, phrase, header, len(text) + 1, text.encode())
            )
        if not self.is_idle:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._close()

    def _close(self) -> None:
        self.transport.close()
        self._abort_soon()

    def _abort_soon(self) -> None:
        """Abort a closing connection once everything is sent: many clients never answer TLS's close."""
        self._overdue = None
        self._cut_at = self.loop.time() + self._limits.unread_seconds
        self.loop.call_later(self._limits.closing_seconds, self._cut)

    def _cut(self) -> None:
        if self.transport.get_write_buffer_size() and self.loop.time() < self._cut_at:
            self.loop.call_later(_NOTICE_SECONDS, self._cut)
        else:
            self.transport.abort()
