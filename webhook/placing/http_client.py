"""HTTP/1.1 over mTLS to one host: only what the controller's API needs.

The name in the certificate is separate from the address to dial: a standby redirects us to the leader's
address, and the server there must still prove that it is the Service.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

from webhook.placing.running_time import running_timeout

CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Address:
    """The host and port to dial."""

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Address:
        """Read `https://host:port`.

        Raises:
            ValueError: it is not such a URL.
        """
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f'"{url}" is not an address of a controller: write https://HOST:PORT')
        return cls(parts.hostname, parts.port or 443)


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply."""

    status: int
    body: bytes


class BrokenReplyError(OSError):
    """The connection ended during a reply, or the reply was not HTTP."""


class _Message:
    """What httptools' parser has found so far of one reply."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.parts: list[bytes] = []
        self.size = 0
        self.has_head = False
        self.complete = False

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, data: bytes) -> None:
        self.parts.append(data)
        self.size += len(data)

    def on_message_complete(self) -> None:
        self.complete = True

    def take(self) -> bytes:
        """Return the body received since the last call."""
        data = b"".join(self.parts)
        self.parts.clear()
        return data


class ClientConnection:
    """One connection, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host.encode("ascii")

    @classmethod
    async def open(cls, address: Address, name: str, context: ssl.SSLContext) -> ClientConnection:
        """Dial an address and verify that its certificate is valid for `name`.

        Raises:
            OSError: it cannot be reached, or has another certificate.
        """
        reader, writer = await asyncio.open_connection(
            address.host, address.port, ssl=context, server_hostname=name
        )
        return cls(reader, writer, name)

    async def request(self, method: str, path: str, body: bytes = b"", max_bytes: int | None = None) -> Reply:
        """Send a request and wait for the complete reply.

        Raises:
            OSError: the connection failed, or the reply is longer than `max_bytes`.
        """
        self._send(method, path, body)
        message = _Message()
        while not message.complete:
            await self._feed(message)
            if max_bytes is not None and message.size > max_bytes:
                raise BrokenReplyError(f"the reply to {path} is over {max_bytes} bytes")
        return Reply(message.parser.get_status_code(), message.take())

    async def stream(self, path: str, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        """Request an endless reply and yield its lines.

        Raises:
            OSError: the connection failed, or the status is not 200.
            TimeoutError: nothing was received for `silence_seconds` in which this process ran.
        """
        self._send("GET", path, b"")
        message, rest = _Message(), b""
        while not message.complete:
            async with running_timeout(silence_seconds):
                await self._feed(message)
            if message.has_head and message.parser.get_status_code() != 200:  # noqa: PLR2004 OK
                raise BrokenReplyError(f"the reply to {path} has status {message.parser.get_status_code()}")
            *lines, rest = (rest + message.take()).split(b"\n")
            for line in lines:
                yield line

    def close(self) -> None:
        """Drop the connection, even during a request."""
        self._writer.transport.abort()

    def _send(self, method: str, path: str, body: bytes) -> None:
        head = b"%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._writer.write(head % (method.encode(), path.encode(), self._host, len(body)) + body)

    async def _feed(self, message: _Message) -> None:
        data = await self._reader.read(CHUNK)
        if not data:
            raise BrokenReplyError("the connection ended during a reply")
        try:
            message.parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise BrokenReplyError(f"not an HTTP reply: {error}") from error
