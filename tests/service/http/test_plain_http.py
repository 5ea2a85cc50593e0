"""The plain server of probes: what it answers, and that strangers cannot hold it."""

import asyncio

import httpx
import pytest
from prometheus_client import CollectorRegistry

from service.http import plain_http
from service.http.plain_http import PlainHttp
from service.probes import Probes
from testbed.listening import dial

PROBE = b"GET /livez HTTP/1.0\r\n\r\n"


def answers(test):
    """Run a test with the address of a server."""

    async def run():
        missing = {"registered": "not yet"}
        probes = Probes(CollectorRegistry(), lambda: missing, lambda: "2 GPUs")
        server = PlainHttp(probes)
        try:
            await test(server.start("127.0.0.1", 0), missing)
        finally:
            server.close()

    return lambda: asyncio.run(run())


@answers
async def test_probes_are_answered_as_by_every_other_process(port, missing):
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
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


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(plain_http, "HEAD_SECONDS", 0.05)


@pytest.mark.usefixtures("hurried")
def test_heads_without_an_end_or_of_any_length_are_dropped():
    @answers
    async def drop(port, missing):
        assert await said(port, b"GET /livez HTTP/1.1\r\n") == b""
        assert await said(port, b"GET /" + b"x" * 100_000) == b""
        assert (await said(port, b"GET /livez HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert (await said(port, b"\xff\r\n\r\n")).startswith(b"HTTP/1.1 405 ")

    drop()


CROWD = 200
"""More than a port has places."""


async def leave(clients):
    for client in clients:
        client.leave()
    await asyncio.gather(*(client.ended() for client in clients))


@answers
async def test_a_probe_is_answered_with_any_number_of_idle_connections(port, missing):
    idle = [await dial(port) for _ in range(CROWD)]
    for _ in range(3):
        assert (await said(port, PROBE)).startswith(b"HTTP/1.1 200 OK\r\n")
    await leave(idle)


@answers
async def test_a_crowd_that_sends_slowly_takes_the_places_of_its_own_address(port, missing):
    begun = await dial(port, "127.0.0.1")
    await begun.say(PROBE[:5])
    crowd = [await dial(port, "127.0.0.2") for _ in range(CROWD)]
    for client in crowd:
        await client.say(PROBE[:5])
    assert (await begun.ask(PROBE[5:])).startswith(b"HTTP/1.1 200 OK\r\n")
    assert (await said(port, PROBE)).startswith(b"HTTP/1.1 200 OK\r\n")
    await leave([begun, *crowd])
