"""uvicorn's HTTP protocol, with a way past its machinery for requests that can be answered at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

GOODBYE_SECONDS = 1
"""For an idle client to answer the end of its TLS connection; many never do."""
JSON = (b"content-type", b"application/json")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Quick:
    """POSTs of JSON to one path, whose answers mostly need no waiting.

    A query counts for nothing: an API server adds `?timeout=5s` to the path that it is given.
    """

    path: bytes
    answer: Callable[[bytes], bytes | Coroutine[Any, Any, bytes]]
    """Makes JSON of JSON, or gives what will; where it raises, the request goes to the app as if nobody had
    looked at it."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, whose broken connections go when they break.

    A request that came whole, and whose answer is there without waiting, gets no task, no scope and no events
    of its own, and its answer is one write. All else goes uvicorn's way: parts, pipelines, errors, the end.
    """

    def __init__(self, *args: Any, quick: Quick | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._quick = quick
        self._held: list[bytes] | None = None
        """The body of a request that may be answered at once; None while uvicorn has it, or there is none."""

    def data_received(self, data: bytes) -> None:
        """Read what came; for the rest of a request that did not come whole, uvicorn's app waits."""
        super().data_received(data)
        held, self._held = self._held, None
        if held is not None and not self.transport.is_closing():
            self._begin_cycle(self.app)
            super().on_body(b"".join(held))

    def on_message_begin(self) -> None:
        """Start with nothing known; a scope is made only for an app."""
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """Hold a request back if it may be answered at once."""
        if self._may_be_quick():
            self._held = []
        else:
            self._begin_cycle(self.app)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._held is None:
            super().on_body(body)
        else:
            self._held.append(body)

    def on_message_complete(self) -> None:
        """Answer a request that came whole, or let an app do it."""
        held, self._held = self._held, None
        if held is not None:
            body = b"".join(held)
            app = self._answer(body) if self.parser.should_keep_alive() else self.app
            if app is None:
                return
            self._begin_cycle(app)
            super().on_body(body)
        elif not self.parser.should_keep_alive():
            # A trailer may have ended it: the parser takes nothing more, so nobody may be let wait for it.
            self.cycle.keep_alive = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on, or part from a client whose last answer this was."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._part()

    def shutdown(self) -> None:
        """End an idle connection soon, also when its client does not answer."""
        super().shutdown()
        if self.transport.is_closing():
            self._part()

    def _part(self) -> None:
        """Cut a closing connection off once everything is sent: many clients never say goodbye."""
        self.loop.call_later(GOODBYE_SECONDS, self._cut)

    def _cut(self) -> None:
        if self.transport.get_write_buffer_size():
            self._part()
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the keep-alive timer too, which uvicorn leaves running when a connection was reset.

        It would hold the connection, with 256 KiB of TLS buffer, for as long as we keep idle ones.
        """
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def _may_be_quick(self) -> bool:
        """Whether this is a request as an API server sends it, on a connection with nothing else to do."""
        return (
            self._quick is not None
            and self.url.partition(b"?")[0] == self._quick.path
            and JSON in self.headers
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and not self.expect_100_continue
            and self._is_idle()
            and not self.flow.write_paused
            and not self.server_state.default_headers
        )

    def _is_idle(self) -> bool:
        """Whether no request is under way; uvicorn's types do not say that there may be no cycle yet."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def _answer(self, body: bytes) -> ASGIApp | None:
        """Answer if that needs no waiting; else give the app that will."""
        assert self._quick is not None  # noqa: S101 nothing is held without it
        usual: ASGIApp = self.app
        try:
            answer = self._quick.answer(body)
        except BaseException:  # noqa: BLE001 the app meets it again; httptools would make a 400 of it
            return usual
        if not isinstance(answer, bytes):
            return partial(_answer_later, answer)
        self.transport.write(_HEAD % len(answer) + answer)
        self.on_response_complete()
        return None

    def _begin_cycle(self, app: ASGIApp) -> None:
        """Let uvicorn begin what it begins when headers are complete, for `app`."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        usual, self.app = self.app, app
        super().on_headers_complete()
        self.app = usual
        # One that was answered at once may have set it, earlier in the same data.
        self._unset_keepalive_if_required()


async def _answer_later(
    answering: Coroutine[Any, Any, bytes], _scope: Scope, _receive: Receive, send: Send
) -> None:
    """An app that sends the answer when it is there."""
    await send_whole(send, 200, [JSON], await answering)


async def send_whole(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Send an ASGI response whose body is at hand, with its length."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
