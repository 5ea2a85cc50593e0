"""Our own HTTPS client: single reviews, floods, and the load where there is no wrk."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from bench.bodies import PATH

HOST = "127.0.0.1"
_LENGTH = b"content-length: "


@dataclass(frozen=True, slots=True)
class Answers:
    """What a load brought: one latency in seconds for each good answer, and the number of failures."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def percentile(self, per_cent: float) -> float:
        """A latency in seconds that so many per cent of answers did not pass."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * per_cent / 100))]


class Connection:
    """One keep-alive connection, opened when it is first used and again after a failure."""

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        self._port = port
        self._trust = trust
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> bytes:
        """Send a review and give the body of the answer.

        Raises:
            OSError: the connection failed, its handshake included.
            ValueError: the answer is not 200.
        """
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                HOST, self._port, ssl=self._trust, server_hostname="localhost"
            )
        reader, writer = self._streams
        writer.write(_request(body))
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            answer = await reader.readexactly(int(head.lower().partition(_LENGTH)[2].split(b"\r\n", 1)[0]))
        except (EOFError, asyncio.IncompleteReadError) as error:
            self.close()
            raise ConnectionError(str(error)) from error
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(head.split(b"\r\n", 1)[0].decode())
        return answer

    def certificate(self) -> bytes:
        """The certificate that the server showed, as DER."""
        assert self._streams is not None
        shown = self._streams[1].get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert isinstance(shown, bytes)
        return shown

    def close(self) -> None:
        """Drop the connection; the next post opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def end(self) -> None:
        """Drop the connection and wait until it is gone."""
        if self._streams is not None:
            writer = self._streams[1]
            self.close()
            with suppress(OSError):
                await writer.wait_closed()


def no_check() -> ssl.SSLContext:
    """A context that takes any certificate: for servers of the bench, whose CA nobody else knows."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def response(port: int, body: bytes) -> dict[str, Any]:
    """What a server responds to one review.

    Raises:
        OSError: the connection failed.
        ValueError: the answer is not 200, or no JSON.
    """

    async def ask() -> bytes:
        connection = Connection(port, no_check())
        try:
            return await connection.post(body)
        finally:
            await connection.end()

    found: dict[str, Any] = json.loads(asyncio.run(ask()))["response"]
    return found


async def closed_loop(port: int, bodies: Sequence[bytes], connections: int, seconds: float) -> Answers:
    """Keep `connections` reviews in flight; each connection sends one at least."""
    answers = Answers(seconds)
    supply = cycle(bodies)
    end = time.perf_counter() + seconds

    async def one() -> None:
        connection = Connection(port, trust)
        while True:
            await _timed(connection, next(supply), time.perf_counter(), answers)
            if time.perf_counter() >= end:
                break
        await connection.end()

    trust = no_check()
    await asyncio.gather(*(one() for _ in range(connections)))
    return answers


async def _timed(connection: Connection, body: bytes, due: float, answers: Answers) -> None:
    try:
        await connection.post(body)
        answers.latencies.append(time.perf_counter() - due)
    except (OSError, ValueError) as error:
        await connection.end()
        answers.failures.append(f"{type(error).__name__}: {error}")


def _request(body: bytes) -> bytes:
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
