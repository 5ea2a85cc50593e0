"""The plain server of probes: what it answers, and that strangers cannot hold it."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
from prometheus_client import CollectorRegistry

from service.http import plain_http
from service.http.plain_http import PlainHttp
from service.probes import Probes
from testbed.listening import dial
from testbed.process import WAIT_S

PROBE = b"GET /livez HTTP/1.0\r\n\r\n"


@pytest.fixture
def missing():
    return {"registered": "not yet"}


@asynccontextmanager
async def plain_server(missing):
    server = PlainHttp(Probes(CollectorRegistry(), lambda: missing, lambda: "2 GPUs"))
    try:
        yield await server.start("127.0.0.1", 0)
    finally:
        server.close()


async def test_probes_are_answered_as_by_every_other_process(missing):
    async with (
        plain_server(missing) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        assert (await client.get("/livez")).text == "ok\n"
        unready = await client.get("/readyz")
        assert (unready.status_code, unready.text) == (503, "[-] registered: not yet\n2 GPUs\n")
        missing["registered"] = None
        assert (await client.get("/readyz?verbose")).status_code == 200
        assert (await client.get("/metrics")).headers["content-type"].startswith("text/plain")
        assert (await client.head("/livez")).headers["content-length"] == "3"
        assert (await client.get("/other")).status_code == 404
        assert (await client.post("/livez")).status_code == 405


async def said(port, text):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_heads_without_an_end_or_of_any_length_are_dropped(missing, monkeypatch):
    monkeypatch.setattr(plain_http, "HEAD_SECONDS", 0.05)
    async with plain_server(missing) as port:
        assert await said(port, b"GET /livez HTTP/1.1\r\n") == b""
        assert await said(port, b"GET /" + b"x" * 100_000) == b""
        assert (await said(port, b"GET /livez HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert (await said(port, b"\xff\r\n\r\n")).startswith(b"HTTP/1.1 405 ")


CROWD = 200
"""More than a port has places."""


async def test_a_crowd_takes_the_places_of_its_own_address(missing, monkeypatch):
    """Whether it says nothing, or sends slowly."""
    monkeypatch.setattr(plain_http, "HEAD_SECONDS", WAIT_S)
    for text in (b"", PROBE[:5]):
        async with plain_server(missing) as port:
            begun = await dial(port, "127.0.0.1")
            await begun.say(PROBE[:5])
            crowd = [await dial(port, "127.0.0.2") for _ in range(CROWD)]
            for client in crowd:
                await client.say(text)
            assert (await begun.ask(PROBE[5:])).startswith(b"HTTP/1.1 200 OK\r\n")
            assert (await said(port, PROBE)).startswith(b"HTTP/1.1 200 OK\r\n")
            for client in (begun, *crowd):
                client.leave()
            await asyncio.gather(*(client.ended() for client in (begun, *crowd)))
