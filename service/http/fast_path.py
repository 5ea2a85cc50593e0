"""The fast path: answers requests that need no waiting without uvicorn's machinery.

It uses members of uvicorn that are not public: tests/service/http/test_uvicorn_members.py lists them. With
any version of uvicorn except the one they were read in, `protocol_of` uses the plain connection.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.http.asgi import JSON, send_whole, while_connected
from service.http.connection import Connection

KNOWN_UVICORN = "0.54."
"""Releases whose private members were read; pyproject.toml allows only these."""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


@dataclass(frozen=True, slots=True)
class FastPathRoute:
    """POSTs of JSON to one path, whose answers mostly need no waiting.

    The query is ignored: an API server adds `?timeout=5s` to the configured path.
    """

    path: bytes
    answer: Callable[[bytes], bytes | Coroutine[Any, Any, bytes]]
    """Returns JSON for JSON, or a coroutine that will. If it raises, the request goes to the app as if this
    had not been called."""


def protocol_of(route: FastPathRoute | None, uvicorn_version: str) -> Callable[..., Connection]:
    """Return the factory of a listener's connections: plain ones if nothing can be answered at once."""
    if route is None or not uvicorn_version.startswith(KNOWN_UVICORN):
        return Connection
    return partial(FastPathConnection, route=route)


class FastPathConnection(Connection):
    """A connection that answers a small complete request at once, if its answer needs no waiting.

    Such a request needs no task, scope or events, and its answer is one write. Everything else is uvicorn's
    work: requests that arrive in parts, errors, the end.
    """

    def __init__(self, *args: Any, route: FastPathRoute, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._route = route
        self._body: list[bytes] | None = None
        """Body of a request that may be answered at once; None if uvicorn has it, or there is none."""

    def data_received(self, data: bytes) -> None:
        """Read the data; uvicorn's app waits for the rest of an incomplete request."""
        super().data_received(data)
        body, self._body = self._body, None
        if body is not None and not self.transport.is_closing():
            self._begin_cycle(self.app)
            super().on_body(b"".join(body))

    def on_message_begin(self) -> None:
        """Start a request without uvicorn's scope, which a request that is answered at once does not need."""
        self.begin_request()
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """Keep a request from uvicorn if it may be answered at once."""
        self.check_head()
        if self._takes_fast_path():
            self._body = []
        else:
            self._begin_cycle(self.app)

    def on_body(self, body: bytes) -> None:
        """Accept a part of the body."""
        if self._body is None:
            super().on_body(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer a complete request, or let an app do it."""
        held, self._body = self._body, None
        if held is not None:
            self.end_request()
            body = b"".join(held)
            is_small = len(body) <= self._limits.small_bytes
            app = self._answer(body) if is_small and self.parser.should_keep_alive() else self.app
            if app is None:
                return
            self._begin_cycle(app)
            super().on_body(body)
        super().on_message_complete()

    def _takes_fast_path(self) -> bool:
        """Return whether this is a request as an API server sends it."""
        return (
            self.url.partition(b"?")[0] == self._route.path
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

    def _begin_cycle(self, app: ASGIApp) -> None:
        """Let uvicorn do for `app` what it does when a request begins and when its headers are complete."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        HttpToolsProtocol.on_message_begin(self)
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        usual, self.app = self.app, app
        HttpToolsProtocol.on_headers_complete(self)
        self.app = usual

    def _answer(self, body: bytes) -> ASGIApp | None:
        """Answer if that needs no waiting; otherwise return the app that will answer."""
        usual: ASGIApp = self.app
        try:
            answer = self._route.answer(body)
        except BaseException:  # noqa: BLE001 the app raises it again; httptools would turn it into a 400
            return usual
        if not isinstance(answer, bytes):
            return partial(_answer_later, answer)
        self.transport.write(_HEAD % len(answer) + answer)
        self.on_response_complete()
        return None


async def _answer_later(
    answering: Coroutine[Any, Any, bytes], scope: Scope, _receive: Receive, send: Send
) -> None:
    """An app that sends the answer when it is ready."""
    with while_connected(scope):
        await send_whole(send, 200, [JSON], await answering)
