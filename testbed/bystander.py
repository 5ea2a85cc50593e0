"""A client that behaves as an API server's does, and notes whatever it should not have met."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence

from testbed.listening import OK, Client

REQUEST = (
    b"POST /mutate?timeout=5s HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b"
)
PAUSES = (0, 0, 0.01, 0.1, 1)


class Bystander:
    """Keeps one connection as Go's transport does, and asks one review after the other.

    A POST is sent once: Go sends it again only where nothing of it was written, which is where the end of
    a kept connection was seen before. And a 503 with Retry-After is asked again after that second. So a
    connection that ends after a request was written, and before its answer is whole, is a finding.
    """

    def __init__(  # noqa: PLR0913 the times of one who is scaled down with his server
        self,
        dial: Callable[[], Awaitable[Client]],
        bodies: Sequence[bytes],
        seed: int,
        *,
        seconds: float = 5,
        idle_seconds: float = 90,
        may_be_late_after: float = 5,
    ) -> None:
        """`may_be_late_after` is when the server may give a request up that has not come whole."""
        self._dial = dial
        self._bodies = bodies
        self._chance = random.Random(seed)  # noqa: S311 no secret
        self._seconds = seconds
        self._idle_seconds = idle_seconds
        self._may_be_late_after = may_be_late_after
        self._client: Client | None = None
        self._idle_since = 0.0
        self.waits: list[float] = []
        """Seconds of each request, new handshakes and second attempts included."""
        self.opened = 0
        self.asked_again = 0
        self.findings: list[str] = []

    async def ask_on(self, is_over: Callable[[], bool]) -> None:
        """Ask until it is over."""
        while not is_over():
            await self.ask(self._chance.choice(self._bodies))
            await asyncio.sleep(self._chance.choice(PAUSES))
        self._leave()

    async def ask(self, body: bytes) -> None:
        """Ask once, as an API server asks for one pod."""
        began, steps = time.monotonic(), list[str]()
        try:
            async with asyncio.timeout(self._seconds):
                while not await self._attempt(body, steps):
                    self.asked_again += 1
                    await asyncio.sleep(1)
        except (OSError, TimeoutError) as error:
            took = time.monotonic() - began
            self.findings.append(f"body of {len(body)}, {took:.2f} s, {', '.join(steps)}: {error!r}")
            self._leave()
        self._idle_since = time.monotonic()
        self.waits.append(self._idle_since - began)

    async def _attempt(self, body: bytes, steps: list[str]) -> bool:
        """Whether it need not be asked again."""
        client = await self._connection(steps)
        # From here to the write nothing is awaited: what is known of the end of the connection holds.
        began = time.monotonic()
        said = await client.ask(REQUEST % (len(body), body))
        steps.append(f"said {said[:60]!r}")
        if not said.startswith(OK) or b"\r\nconnection: close\r\n" in said.lower():
            self._leave()
        if said.startswith(b"HTTP/1.1 503") and b"\r\nretry-after: 1\r\n" in said:
            return False
        if said.startswith(b"HTTP/1.1 408") and time.monotonic() - began > self._may_be_late_after:
            return False
        if not said.startswith(OK):
            raise ConnectionError("no answer" if not said else "no good answer")
        return True

    async def _connection(self, steps: list[str]) -> Client:
        client = self._client
        if client is not None:
            idle = time.monotonic() - self._idle_since
            ended = client.reader.at_eof() or client.reader.exception() or client.writer.is_closing()
            if not ended and idle < self._idle_seconds:
                steps.append(f"kept, {idle:.3f} s idle")
                return client
            self._leave()
        steps.append("new")
        self._client = client = await self._dial()
        self.opened += 1
        return client

    def _leave(self) -> None:
        if self._client is not None:
            self._client.leave()
            self._client = None
