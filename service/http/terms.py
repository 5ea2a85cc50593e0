"""What all connections of a listener share; the only module that knows uvicorn.

It uses the class of uvicorn's protocol, which gets what a transport calls, and calls the app by ASGI.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.http.asgi import ON_LOST
from service.http.buffered_bytes import BufferedBytes
from service.http.limits import Limits

_ANSWER = "answer"
"""Key of a scope's state: the ASGI app of one connection."""
_DAY_SECONDS = 24 * 60 * 60


class Terms:
    """What all connections of a listener share.

    Args:
        app: answers requests.
        limits: what a client can use.
        held: the requests that this process holds.
        clients: a client's certificate must be valid for one of these names; None admits all.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, held: BufferedBytes, clients: frozenset[str] | None
    ) -> None:
        self.app = app
        self.limits = limits
        self.held = held
        self.clients = clients
        self.is_closing = False
        """Whether every answer ends its connection."""
        self.running: set[asyncio.Task[object] | None] = set()
        """Tasks that answer requests."""
        # A connection has its own idle time, which must end first.
        self._config = uvicorn.Config(
            _answer, interface="asgi3", ws="none", lifespan="off", log_config=None, log_level="error",
            access_log=False, proxy_headers=False, timeout_keep_alive=_DAY_SECONDS,
        )  # fmt: skip
        self._state = uvicorn.Server(self._config).server_state

    def uvicorn(self, answer: ASGIApp, lost_calls: set[Callable[[], object]]) -> asyncio.Protocol:
        """Make uvicorn's protocol for a connection.

        Args:
            answer: is called for each request.
            lost_calls: functions that are called when the connection is lost.
        """
        return HttpToolsProtocol(self._config, self._state, {_ANSWER: answer, ON_LOST: lost_calls})


def _answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
    answer: ASGIApp = scope["state"][_ANSWER]
    return answer(scope, receive, send)
