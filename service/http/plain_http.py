"""A plain HTTP server for probes and metrics, for processes where a web framework needs too much memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from http import HTTPStatus

from service.http.limits import KIB, Limits
from service.http.sockets import bind
from service.probes import TEXT, ProbeResponse, Probes

MAX_HEAD = 8 * KIB
HEAD_SECONDS = 5.0
"""From the start of a connection to the end of its head."""


class PlainHttp:
    """Answers GET and HEAD of /livez, /readyz and /metrics, one request per connection.

    It has the same connection limit as every other port: a connection beyond it replaces the oldest one of
    the address that has the most.
    """

    def __init__(self, probes: Probes) -> None:
        self._paths = probes.paths
        self._limits = Limits()
        self._open: dict[asyncio.StreamWriter, str] = {}
        """Addresses of the open connections, the oldest first."""
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; 0 takes a free one.

        Raises:
            OSError: the address is not available.
        """
        bound = bind(host, port)
        self._server = await asyncio.start_server(self._serve, sock=bound, limit=MAX_HEAD)
        return int(bound.getsockname()[1])

    def close(self) -> None:
        """Stop listening, and end open connections."""
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self._limits.connections:
            ((most, _),) = Counter(self._open.values()).most_common(1)
            ended = next(each for each, address in self._open.items() if address == most)
            del self._open[ended]
            ended.transport.abort()
        self._open[writer] = (writer.get_extra_info("peername") or [""])[0]
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
            self._open.pop(writer, None)

    def _response(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in {"GET", "HEAD"}:
            answer = ProbeResponse(405, TEXT, b"use GET\n")
        elif path not in self._paths:
            answer = ProbeResponse(404, TEXT, f"use {', '.join(self._paths)}\n".encode())
        else:
            answer = self._paths[path]()
        text = (
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
            f"content-type: {answer.content_type}\r\ncontent-length: {len(answer.body)}\r\n"
            "connection: close\r\n\r\n"
        )
        return text.encode("latin-1") + (b"" if method == "HEAD" else answer.body)
