"""Kept connections whose idle time may end while their client sends: no review may be lost.

Go's transport sends a POST again only where nothing of it was written. So the client must be who closes, and
what it wrote before we close must be answered. The times are those of a process, in a loop whose time does
not depend on how busy the machine is; that a request which is there already is answered is test_connection's.
"""

import asyncio
import random

from testbed.listening import OK, listening
from tests.service.virtual_time import VirtualTimeLoop

POST = b"POST /mutate?timeout=5s HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}"
IDLE_SECONDS = 90
"""Of an API server's connections; ours may be idle for 120, uvicorn's for 5."""


class ApiServer:
    """Keeps one connection as Go's transport does: drops it when it was idle for 90 s."""

    def __init__(self, served):
        self._served = served
        self._client = None
        self._loop = asyncio.get_running_loop()
        self._idle_since = 0.0
        self.opened = 0
        self.lost = 0

    async def post(self):
        with self._loop.time_stands():
            late = self._loop.time() - self._idle_since > IDLE_SECONDS
            if self._client is None or late or self._client.reader.at_eof():
                if self._client is not None:
                    self._client.writer.close()
                self._client = await self._served.connect()
                self.opened += 1
            answer = await self._client.ask(POST)
        self.lost += not answer.startswith(OK)
        self._idle_since = self._loop.time()


async def call(count, times, pauses, **limits):
    """So many API servers call so many times each, pausing between two figures."""
    chance = random.Random(5)  # noqa: S311 no secret
    async with listening(connections=256, **limits) as served:
        servers = [ApiServer(served) for _ in range(count)]

        async def keep_calling(server):
            for _ in range(times):
                await server.post()
                await asyncio.sleep(chance.uniform(*pauses))

        await asyncio.gather(*map(keep_calling, servers))
        return sum(server.lost for server in servers), [server.opened for server in servers]


def run(calls):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(calls)


def test_reviews_after_about_five_idle_seconds_go_over_the_same_connections():
    lost, opened = run(call(50, 20, (4.9, 5.1)))
    assert lost == 0
    assert opened == [1] * 50


def test_reviews_after_any_idle_time_are_answered_since_the_api_server_closes_first():
    lost, opened = run(call(50, 10, (80, 125)))
    assert lost == 0
    assert 50 * 10 > sum(opened) > 50
