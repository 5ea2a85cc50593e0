"""A way past uvicorn's machinery for requests that can be answered at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from service.connection import Connection

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


class HttpProtocol(Connection):
    """A connection on which requests that came whole are answered at once, if their answer needs no waiting.

    Such a request gets no task, no scope and no events of its own, and its answer is one write. All else goes
    uvicorn's way: parts, errors, the end.
    """

    def __init__(self, *args: Any, quick: Quick | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._quick = quick
        self._body: list[bytes] | None = None
        """The body of a request that may be answered at once; None while uvicorn has it, or there is none."""

    def data_received(self, data: bytes) -> None:
        """Read what came; for the rest of a request that did not come whole, uvicorn's app waits."""
        super().data_received(data)
        body, self._body = self._body, None
        if body is not None and not self.transport.is_closing():
            self.begin_cycle(self.app)
            super().on_body(b"".join(body))

    def on_headers_complete(self) -> None:
        """Hold a request back if it may be answered at once."""
        self.check_head()
        if self._may_be_quick():
            self._body = []
        else:
            self.begin_cycle(self.app)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._body is None:
            super().on_body(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer a request that came whole, or let an app do it."""
        held, self._body = self._body, None
        if held is not None:
            self.end_request()
            body = b"".join(held)
            app = self._answer(body) if self.parser.should_keep_alive() else self.app
            if app is None:
                return
            self.begin_cycle(app)
            super().on_body(body)
        super().on_message_complete()

    def _may_be_quick(self) -> bool:
        """Whether this is a request as an API server sends it."""
        return (
            self._quick is not None
            and self.url.partition(b"?")[0] == self._quick.path
            and JSON in self.headers
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and not self.expect_100_continue
            and not self.flow.write_paused
            and not self.server_state.default_headers
            and self.is_admitted
        )

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
