"""A plain HTTP server for probes and metrics, for processes where a web framework needs too much memory."""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus

from service.http.acceptor import Acceptor, Place
from service.http.limits import KIB, Limits
from service.http.sockets import bind
from service.probes import TEXT, ProbeResponse, Probes

MAX_HEAD = 8 * KIB
HEAD_SECONDS = 5.0
"""From the start of a connection to the end of its head."""


class PlainHttp:
    """Answers GET and HEAD of /livez, /readyz and /metrics, one request per connection.

    It has the same connection limit as every other port, and enforces it in the same way.
    """

    def __init__(self, probes: Probes) -> None:
        self._paths = {"/livez": probes.livez, "/readyz": probes.readyz, "/metrics": probes.metrics}
        self._limits = Limits()
        self._acceptor: Acceptor | None = None

    def start(self, host: str, port: int) -> int:
        """Listen, and return the port; 0 takes a free one.

        Raises:
            OSError: the address is not available.
        """
        bound = bind(host, port)
        self._acceptor = Acceptor(bound, self._protocol, None, self._limits)
        _ = self._acceptor.start()
        return int(bound.getsockname()[1])

    def close(self) -> None:
        """Stop listening."""
        if self._acceptor is not None:
            self._acceptor.close()

    def _protocol(self, place: Place) -> asyncio.Protocol:
        reader = asyncio.StreamReader(limit=MAX_HEAD)
        return asyncio.StreamReaderProtocol(reader, partial(self._serve, place))

    async def _serve(self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(self._limits.unread_seconds):
                writer.write(self._response(head))
                writer.close()
                await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.transport.abort()
            place.leave()

    def _response(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        answer = self._answer(method, rest.partition(" ")[0].partition("?")[0])
        text = (
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
            f"content-type: {answer.content_type}\r\ncontent-length: {len(answer.body)}\r\n"
            "connection: close\r\n\r\n"
        )
        return text.encode("latin-1") + (b"" if method == "HEAD" else answer.body)

    def _answer(self, method: str, path: str) -> ProbeResponse:
        if method not in {"GET", "HEAD"}:
            return ProbeResponse(405, TEXT, b"use GET\n")
        if path not in self._paths:
            return ProbeResponse(404, TEXT, f"use {', '.join(self._paths)}\n".encode())
        return self._paths[path]()
