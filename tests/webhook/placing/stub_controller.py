"""A controller of few words, over mTLS: answers batches as a test tells it."""

import asyncio
import contextlib
import json
import ssl
from datetime import UTC, datetime

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.live_context import LiveTlsContext
from certs.values import TlsFiles

AUTHORITY = make_authority(datetime.now(UTC))


def files(names=LOCAL_NAMES, authority=AUTHORITY):
    return TlsFiles(make_leaf(authority, names, datetime.now(UTC)), authority.certificate_pem)


def placement(node, reservation="uid-1"):
    known = {"indices": [0], "gpu_mib": 81920, "memory_values": ["81920"]}
    return {"placement": {**known, "node": node, "reservation": reservation}}


class Controller:
    """Answers requests as the test says: with a function from body to (status, content)."""

    def __init__(self, answer, asked="POST /v1/placements"):
        self.answer = answer
        self._asked = asked
        self.batches = []
        self.connections = 0
        self.writers = []

    async def serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                _, _, length = head.lower().partition("content-length: ")
                body = await reader.readexactly(int(length.split("\r\n")[0] or 0))
                if not head.startswith(f"{self._asked} "):
                    break
                self.batches.append(json.loads(body or "null"))
                status, content = await self.answer(self.batches[-1])
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)
        writer.transport.abort()


@contextlib.asynccontextmanager
async def listening(controller, tls=None):
    context = LiveTlsContext(verify_clients=True)
    pair = tls or files()
    context.swap(pair.pair, AUTHORITY.certificate_pem)
    server = await asyncio.start_server(controller.serve, "127.0.0.1", 0, ssl=context.listener)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
