"""One address for several processes: new connections go to those that are ready, as with a Service."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

POLL_S = 0.1
CHUNK = 65536


class Balancer:
    """Relays TCP while the context is open; connections that are there stay with their process.

    Args:
        backends: Port of each process on the loopback device, and whether it is ready at the moment.
    """

    def __init__(self, backends: Mapping[int, Callable[[], bool]]) -> None:
        self._backends = backends
        self._ready: list[int] = []
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        """For clientConfig.url."""
        return f"https://127.0.0.1:{self.port}/mutate"

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        """Close everything."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> None:
        await self._look()
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._looking = self._loop.create_task(self._follow())

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(POLL_S)

    async def _look(self) -> None:
        asked = [asyncio.to_thread(is_ready) for is_ready in self._backends.values()]
        answers = await asyncio.gather(*asked)
        self._ready = [port for port, ready in zip(self._backends, answers, strict=True) if ready]

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._ready:
            writer.transport.abort()
            return
        writers = [writer]
        try:
            port = self._ready[next(self._turns) % len(self._ready)]
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(other_writer)
            await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
        except (asyncio.CancelledError, OSError):
            for left in writers:
                left.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()
