"""An API server of a few lines: it answers each request with the next one of a script."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

from cluster.endpoint import Endpoint
from cluster.kube_client import ApiServer
from testbed.process import WAIT_S

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class FakeApi:
    """What was asked, and what is answered.

    Attributes:
        asked: (method, path, query, body) of each request so far.
    """

    def __init__(self, *script):
        self.script = list(script)
        self.asked = []
        self.open = set()
        self._asked = asyncio.Event()

    async def serve(self, reader, writer):
        self.open.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(head.decode(), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    async def _answer(self, head, reader, writer):
        line, *headers = head.split("\r\n")
        method, target, _ = line.split(" ")
        lengths = [h.split(":")[1] for h in headers if h.lower().startswith("content-length:")]
        body = await reader.readexactly(int(lengths[0])) if lengths else b""
        parts = urlsplit(target)
        content = json.loads(body) if body else None
        self.asked.append((method, parts.path, dict(parse_qsl(parts.query)), content))
        self._asked.set()
        answer = self.script.pop(0) if self.script else forever
        await answer(writer)

    async def until_asked(self, times):
        async with asyncio.timeout(WAIT_S):
            while len(self.asked) < times:
                self._asked.clear()
                await self._asked.wait()

    @property
    def queries(self):
        """The queries so far, without what the clock or chance decides."""
        return [{k: v for k, v in query.items() if k != "timeoutSeconds"} for _, _, query, _ in self.asked]


@asynccontextmanager
async def talking_to(fake):
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    api = ApiServer(Endpoint(f"http://127.0.0.1:{port}"))
    try:
        yield api
    finally:
        await api.close()
        server.close()
        # Who was accepted just now is in `open` a few steps later.
        for _ in range(4):
            await asyncio.sleep(0)
        for writer in fake.open:
            writer.close()
        await asyncio.gather(*[writer.wait_closed() for writer in fake.open], return_exceptions=True)


def reply(content, status="200 OK", **headers):
    async def answer(writer):
        body = json.dumps(content).encode()
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return answer


def refusal(code, message="no", **headers):
    return reply({"kind": "Status", "message": message, "code": code}, f"{code} Refused", **headers)


def watch(*events, end=True):
    """A watch of these events, which then ends, or hangs."""

    async def answer(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in events:
            data = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if end:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        if not end:
            await forever(writer)

    return answer


def cut(*events, tail):
    """A watch whose connection breaks within an event, after `tail` of it."""

    async def answer(writer):
        lines = [json.dumps(event).encode() + b"\n" for event in events]
        data = b"".join(lines) + tail
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(f"{len(data) + 100:x}\r\n".encode() + data)
        await writer.drain()
        writer.close()

    return answer


async def forever(_writer):
    await asyncio.Event().wait()
