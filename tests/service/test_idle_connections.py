"""Kept connections whose idle time may end while their client sends: no review may be lost.

Go's transport sends a POST again only where nothing of it was written. So the client must be who closes, and
what it wrote before we close must be answered.
"""

import asyncio
import random
import time

from tests.service.listening import OK, run

POST = b"POST /mutate?timeout=5s HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}"
SECOND = 1 / 40
"""A second of these tests; idle time is 120 of ours, 90 of an API server's, 5 of uvicorn's."""


class ApiServer:
    """Keeps one connection as Go's transport does: drops it when it was idle for 90 s."""

    def __init__(self, served):
        self._served = served
        self._client = None
        self._idle_since = 0.0
        self.opened = 0
        self.lost = 0

    async def post(self):
        late = time.monotonic() - self._idle_since > 90 * SECOND
        if self._client is None or late or self._client.reader.at_eof():
            if self._client is not None:
                self._client.writer.close()
            self._client = await self._served.connect()
            self.opened += 1
        answer = await self._client.ask(POST)
        self.lost += not answer.startswith(OK)
        self._idle_since = time.monotonic()


def test_ten_thousand_reviews_after_about_five_idle_seconds_go_over_the_same_connections():
    async def test(served):
        chance = random.Random(5)  # noqa: S311 no secret
        servers = [ApiServer(served) for _ in range(200)]

        async def keep_calling(server):
            for _ in range(50):
                await server.post()
                await asyncio.sleep(chance.uniform(4.9, 5.1) * SECOND)

        await asyncio.gather(*map(keep_calling, servers))
        assert sum(server.lost for server in servers) == 0
        assert [server.opened for server in servers] == [1] * 200

    run(test, idle_seconds=120 * SECOND, connections=256)


def test_reviews_after_any_idle_time_are_answered_since_the_api_server_closes_first():
    async def test(served):
        chance = random.Random(90)  # noqa: S311 no secret
        servers = [ApiServer(served) for _ in range(100)]

        async def keep_calling(server):
            for _ in range(2):
                await server.post()
                await asyncio.sleep(chance.uniform(80, 125) * SECOND)

        await asyncio.gather(*map(keep_calling, servers))
        assert sum(server.lost for server in servers) == 0
        assert sum(server.opened for server in servers) > 100

    run(test, idle_seconds=120 * SECOND, connections=256)
