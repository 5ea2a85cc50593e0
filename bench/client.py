"""An HTTPS client: single reviews, and many at a time."""

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


@dataclass(slots=True)
class Answers:
    """What a load brought: the number of good answers, and the failures."""

    good: int = 0
    failures: list[str] = field(default_factory=list)


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
            await self.end()
            raise ConnectionError(str(error)) from error
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(head.split(b"\r\n", 1)[0].decode())
        return answer

    async def end(self) -> None:
        """Drop the connection; the next post opens another."""
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
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


def press(port: int, bodies: Sequence[bytes], connections: int, seconds: float) -> int:
    """Keep so many reviews in flight for so long; give the number of answers.

    Raises:
        RuntimeError: a request failed; a bench of failures measures nothing.
    """
    answers = asyncio.run(closed_loop(port, bodies, connections, seconds))
    if answers.failures:
        raise RuntimeError(f"{len(answers.failures)} requests failed: {answers.failures[0]}")
    return answers.good


async def closed_loop(port: int, bodies: Sequence[bytes], connections: int, seconds: float) -> Answers:
    """Keep `connections` reviews in flight; each connection sends one at least."""
    answers = Answers()
    supply = cycle(bodies)
    end = time.perf_counter() + seconds

    async def one() -> None:
        connection = Connection(port, trust)
        while True:
            await _post(connection, next(supply), answers)
            if time.perf_counter() >= end:
                break
        await connection.end()

    trust = no_check()
    await asyncio.gather(*(one() for _ in range(connections)))
    return answers


async def _post(connection: Connection, body: bytes, answers: Answers) -> None:
    try:
        await connection.post(body)
        answers.good += 1
    except (OSError, ValueError) as error:
        await connection.end()
        answers.failures.append(f"{type(error).__name__}: {error}")


def _request(body: bytes) -> bytes:
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
