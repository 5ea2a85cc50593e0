"""A plain HTTP server for probes and metrics, for processes where a web framework needs too much memory."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus

from service.http.acceptor import Acceptor
from service.http.limits import KIB, Limits
from service.http.sockets import bind, has_unread_data
from service.probes import TEXT, ProbeResponse, Probes

MAX_HEAD = 8 * KIB
HEAD_SECONDS = 5.0
"""From the start of a connection to the end of its head."""
BACKLOG = 1024
_END = b"\r\n\r\n"
_moments = itertools.count()


class PlainHttp:
    """Answers GET and HEAD of /livez, /readyz and /metrics, one request per connection.

    It has the same connection limit as every other port, and enforces it in the same way.
    """

    def __init__(self, probes: Probes) -> None:
        self._paths = {"/livez": probes.livez, "/readyz": probes.readyz, "/metrics": probes.metrics}
        self._socket: socket.socket | None = None
        self._acceptor: Acceptor | None = None

    def start(self, host: str, port: int) -> int:
        """Listen, and return the port; 0 takes a free one.

        Raises:
            OSError: the address is not available.
        """
        self._socket = bind(host, port)
        limits = Limits()
        self._acceptor = Acceptor(self._socket, lambda: PlainConnection(self._response, limits), None, limits)
        self._acceptor.start(BACKLOG)
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Stop listening."""
        if self._acceptor is not None and self._socket is not None:
            self._acceptor.close()
            self._socket.close()

    def _response(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        answer = self._answer(method, path)
        lines: Mapping[str, object] = {
            "content-type": answer.content_type,
            "content-length": len(answer.body),
            "connection": "close",
        }
        status = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"
        text = "\r\n".join([status, *(f"{name}: {value}" for name, value in lines.items()), "", ""])
        return text.encode("latin-1") + (b"" if method == "HEAD" else answer.body)

    def _answer(self, method: str, path: str) -> ProbeResponse:
        if method not in {"GET", "HEAD"}:
            return ProbeResponse(405, TEXT, b"use GET\n")
        if path not in self._paths:
            return ProbeResponse(404, TEXT, f"use {', '.join(self._paths)}\n".encode())
        return self._paths[path]()


class PlainConnection(asyncio.Protocol):
    """One connection: a head of at most 8 KiB within 5 s, one answer, then the end.

    Args:
        response: returns the answer to a head.
        limits: how long a client may take to read the answer.
    """

    def __init__(self, response: Callable[[bytes], bytes], limits: Limits) -> None:
        self._response = response
        self._limits = limits
        self._received = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.is_open = False
        self.served = 0
        self.since = next(_moments)
        self.on_lost: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the head."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 only these are made of TCP sockets
        self._transport = transport
        self.is_open = True
        self._end_after(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Answer a complete head; ignore what follows it."""
        if self.served:
            return
        if not self._received:
            self.since = next(_moments)
        seen = len(self._received)
        self._received += data
        if self._received.find(_END, max(0, seen - len(_END) + 1), MAX_HEAD) >= 0:
            self._reply()
        elif len(self._received) >= MAX_HEAD:
            self.transport.abort()

    def eof_received(self) -> bool:
        """Let a client that has finished sending still read its answer."""
        return self.served > 0

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the reason does not matter
        """Release everything."""
        if self._timer is not None:
            self._timer.cancel()
        self.on_lost()

    @property
    def transport(self) -> asyncio.Transport:
        """The transport, once the connection is open."""
        if self._transport is None:
            raise RuntimeError("the connection is not open yet")
        return self._transport

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress; an answer is written at once."""
        return True

    @property
    def is_receiving(self) -> bool:
        """Whether part of a head was received."""
        return bool(self._received) and not self.served

    @property
    def has_asked(self) -> bool:
        """Whether unread data in the kernel may be a request."""
        return self.is_open and not self._received and has_unread_data(self.transport)

    def _reply(self) -> None:
        self.served = 1
        self.since = next(_moments)
        self.transport.write(self._response(bytes(self._received)))
        self._received.clear()
        self.transport.close()
        self._end_after(self._limits.unread_seconds)

    def _end_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.transport.abort)
