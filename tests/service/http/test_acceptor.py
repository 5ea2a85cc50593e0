"""Who gets in where all connections are taken, and who has to go."""

import asyncio
import ssl
from datetime import UTC, datetime

import pytest
import uvloop

from certs.live_context import LiveTlsContext
from certs.self_signed import self_signed
from testbed.listening import GET, OK, serving, until
from tests.service import virtual_time

LOOP = uvloop.new_event_loop

FLOOD, API_SERVER = "127.0.0.2", "127.0.0.1"


async def test_a_flood_takes_places_of_its_own_and_not_an_api_servers():
    async with serving(connections=8) as served:
        kept = [await served.connect(API_SERVER) for _ in range(2)]
        for client in kept:
            await client.ask()
        flood = [await served.connect(FLOOD) for _ in range(20)]
        for client in flood[-6:]:
            assert (await client.ask()).startswith(OK)
        assert served.acceptor.count <= 8
        for client in kept:
            assert (await client.ask()).startswith(OK)
        late = await served.connect(API_SERVER)
        assert (await late.ask()).startswith(OK)
        assert await asyncio.gather(*(client.ended() for client in flood[:14])) == [b""] * 14


async def test_of_one_address_who_has_asked_nothing_goes_first_then_who_is_idle_for_the_longest():
    async with serving(connections=3) as served:
        silent = await served.connect()
        await until(lambda: served.acceptor.count == 1)
        first, second = await served.connect(), await served.connect()
        for client in (first, second, first):
            await client.ask()
        third = await served.connect()
        assert (await third.ask()).startswith(OK)
        assert await silent.ended() == b""
        fourth = await served.connect()
        assert (await fourth.ask()).startswith(OK)
        assert await second.ended() == b""
        assert (await first.ask()).startswith(OK)


async def test_who_sends_slowly_goes_after_the_idle_and_who_waits_for_an_answer_never():
    async with serving(connections=2) as served:
        waiting, sending = await served.connect(), await served.connect()
        await sending.say(b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nx")
        await until(lambda: served.app.asked)
        served.app.go.clear()
        await waiting.say(GET)
        await until(lambda: len(served.app.asked) == 2)
        other = await served.connect()
        await other.say(GET)
        await until(lambda: len(served.app.asked) == 3)
        assert await sending.ended() == b""
        last = await served.connect()
        await last.say(GET)
        served.app.go.set()
        answers = await asyncio.gather(*(client.hear() for client in (waiting, other, last)))
        assert [answer.startswith(OK) for answer in answers] == [True] * 3


async def test_an_idle_connection_stays_that_holds_a_request_which_was_not_read_yet():
    async with serving(connections=2) as served:
        first, second = await served.connect(), await served.connect()
        for client in (first, second):
            await client.ask()
        for connection in served.connections:
            connection.transport.pause_reading()
        await first.say(GET)
        third = await served.connect()
        assert (await third.ask()).startswith(OK)
        assert await second.ended() == b""
        for connection in served.connections:
            connection.transport.resume_reading()
        assert (await first.hear()).startswith(OK)


def trusting():
    made = self_signed(datetime.now(UTC))
    context = LiveTlsContext()
    context.swap(made.pair)
    return context.listener, {
        "ssl": ssl.create_default_context(cadata=made.ca_pem.decode()),
        "server_hostname": "localhost",
    }


async def test_handshakes_that_never_end_count_and_are_the_first_to_go():
    listener, tls = trusting()
    async with serving(tls=listener, connections=4) as served:
        kept = await served.connect(**tls)
        await kept.ask()
        silent = [await served.connect() for _ in range(10)]
        assert (await kept.ask()).startswith(OK)
        for _ in range(3):
            assert (await (await served.connect(**tls)).ask()).startswith(OK)
        assert served.acceptor.count <= 4
        assert await asyncio.gather(*(client.ended() for client in silent[:9])) == [b""] * 9


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100])
def test_a_handshake_that_fails_or_takes_too_long_leaves_nothing(said):
    listener, tls = trusting()

    async def test(served, loop):
        client = await served.connect()
        await client.say(said)
        await client.ended()
        await until(lambda: served.acceptor.count == 0)
        with loop.time_stands():
            assert (await (await served.connect(**tls)).ask()).startswith(OK)

    virtual_time.run(test, tls=listener)


async def test_a_listener_that_closes_ends_handshakes():
    listener, _ = trusting()
    async with serving(tls=listener) as served:
        client = await served.connect()
        await until(lambda: served.acceptor.count == 1)
        served.acceptor.close()
        await served.acceptor.wait_empty()
        assert await client.ended() == b""
