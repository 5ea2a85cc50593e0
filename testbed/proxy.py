"""A proxy between a controller and the API server, to do to them what networks do."""

import asyncio
import json
import ssl
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from testbed.components import ADMIN_TOKEN

CHUNK = 1 << 16


class Proxy:
    """Plain HTTP towards the controller, TLS towards an API server. Use as a context manager.

    Attributes:
        late: Status lines with which the API server answered what was sent on only after a hold.
    """

    def __init__(self, upstream: str, ca_file: Path) -> None:
        self.upstream = upstream
        self.late: list[str] = []
        self._trust = ssl.create_default_context(cafile=str(ca_file))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0

    def __enter__(self) -> Self:
        """Listen on a free port."""
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        """Break all connections and end."""
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kubeconfig(self, file: Path) -> Path:
        """Write a kubeconfig that leads through the proxy."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{self._port}"}}],
            "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }
        file.write_text(json.dumps(config))
        return file

    def hold(self) -> None:
        """Keep back what the controller sends from now on; answers and events still reach it."""
        self._call(self._set_open(is_open=False))

    def release(self) -> None:
        """Send on what was held, also for connections that the controller has given up since."""
        self._call(self._set_open(is_open=True))

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        done: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.result(10)

    async def _listen(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        await self._abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _set_open(self, *, is_open: bool) -> None:
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._relay(reader, writer)
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(self.upstream)
        up_reader, up_writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=self._trust)
        self._writers.add(up_writer)
        held = _Held()
        back = asyncio.create_task(self._back(up_reader, writer, held))
        try:
            while data := await reader.read(CHUNK):
                if not self._open.is_set():
                    held.was = True
                    await self._open.wait()
                up_writer.write(data)
                await up_writer.drain()
            if held.was:
                await asyncio.wait_for(held.answered.wait(), 60)
        finally:
            back.cancel()
            self._writers.discard(up_writer)
            up_writer.transport.abort()

    async def _back(
        self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: "_Held"
    ) -> None:
        while data := await up_reader.read(CHUNK):
            if held.was:
                self.late.append(data.partition(b"\r\n")[0].decode("latin-1"))
                held.answered.set()
            if not writer.is_closing():
                writer.write(data)
        writer.close()


class _Held:
    """Whether a connection's requests were held, and answered after that."""

    def __init__(self) -> None:
        self.was = False
        self.answered = asyncio.Event()
