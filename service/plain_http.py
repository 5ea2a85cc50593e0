"""A plain HTTP server for probes and metrics, where a web framework would take too much memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

from service.probes import TEXT, ProbeResponse, Probes

MAX_HEAD = 8 * 1024
HEAD_SECONDS = 5.0
MAX_CONNECTIONS = 32


class PlainHttp:
    """Answers GET and HEAD of /livez, /readyz and /metrics, one request a connection."""

    def __init__(self, probes: Probes) -> None:
        self._paths = {"/livez": probes.livez, "/readyz": probes.readyz, "/metrics": probes.metrics}
        self._open = 0

    async def start(self, host: str, port: int) -> asyncio.Server:
        """Listen; port 0 takes a free one.

        Raises:
            OSError: the address cannot be had.
        """
        return await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                async with asyncio.timeout(HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._response(head))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # nobody is left to answer, or nobody who speaks HTTP
        finally:
            self._open -= 1
            writer.close()

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
