"""How a connection ends: after idle time, with its listener, and with a client that does not let it end."""

import asyncio
import gc
import socket

import pytest
import uvloop

from service.http.acceptor import Place, Stage
from service.http.asgi import send_whole
from service.http.connection import Connection
from service.http.limits import Limits
from testbed.listening import GET, MIB, OK, answering, post, run, serving, status, until
from tests.service import virtual_time

LOOP = uvloop.new_event_loop


@pytest.mark.parametrize("said", [b"", b"\r\n" * 10])
@pytest.mark.parametrize("asked", [0, 2])
def test_who_asks_nothing_is_let_go(said, asked):
    async def test(served, loop):
        with loop.time_stands():
            client = await served.connect()
            for _ in range(asked):
                await client.ask()
            await client.say(said)
        assert await client.ended() == b""

    virtual_time.run(test)


def test_time_does_not_run_out_while_an_answer_is_made():
    async def test(served, loop):
        served.app.go.clear()
        with loop.time_stands():
            client = await served.connect()
            await client.say(GET)
            await virtual_time.until(lambda: served.app.asked)
        await asyncio.sleep(1000)
        served.app.go.set()
        assert (await client.hear()).startswith(OK)

    virtual_time.run(test)


async def test_an_app_that_works_on_after_its_answer_does_not_end_the_next_request():
    over, asked = asyncio.Event(), []

    async def app(_scope, _receive, send):
        asked.append(None)
        is_first = len(asked) == 1
        if not is_first:
            over.set()
            await asyncio.sleep(0.3)
        await send_whole(send, 200, [], b"")
        if is_first:
            await over.wait()

    async with serving(app=app, unread_seconds=0.1) as served:
        client = await served.connect()
        for _ in range(2):
            await client.say(GET)
            assert (await client.hear()).startswith(OK)


def test_a_request_that_is_here_when_idle_time_ends_is_answered():
    """The loop is busy when it comes, until long after."""

    async def test(served, loop):
        with loop.time_stands():
            client = await served.connect()
            await client.ask()
            client.writer.write(GET)
            loop.pass_time(1000)
            assert (await client.hear()).startswith(OK)

    virtual_time.run(test)


async def test_a_request_that_is_here_when_the_listener_closes_is_answered():
    async with serving() as served:
        client = await served.connect()
        await client.ask()
        client.writer.write(GET)
        stopping = asyncio.ensure_future(served.stop())
        answer = await client.ended()
        await stopping
        assert answer.startswith(OK)
        assert b"connection: close" in answer


def test_requests_that_are_arriving_when_the_listener_closes_are_answered_within_their_time():
    async def test(served, loop):
        with loop.time_stands():
            head, slow, in_time = [await served.connect() for _ in range(3)]
            await head.say(GET[:-2])
            for each in (slow, in_time):
                await each.say(post(10, sent=9))
            await virtual_time.until(lambda: len(served.app.asked) == 2)
            stopping = asyncio.ensure_future(served.stop())
            assert await head.ended() == b""
            assert (await in_time.ask(b"x")).endswith(b"\r\n\r\n10")
        assert status(await slow.ended()) == 408
        await stopping

    virtual_time.run(test)


@pytest.mark.parametrize("size", [100_000, 50 * MIB])
def test_a_client_that_does_not_read_its_answer_is_cut_off(size):
    async def test(served, loop):
        with loop.time_stands():
            client = await served.connect()
            client.writer.transport.pause_reading()
            await client.say(GET)
            await asyncio.sleep(0)
        if size > MIB:
            await virtual_time.until_passes(lambda: served.is_free)
            assert loop.time() >= Limits().unread_seconds
        client.writer.transport.resume_reading()
        assert (len(await client.hear()) > size) is (size < MIB)

    virtual_time.run(test, app=answering(200, b"x" * size, length=size))


def test_nothing_is_left_of_a_lost_connection_for_the_garbage_collector_to_find():
    """TLS buffers of 256 KiB would stay with it."""

    async def test(served):
        for text in (b"", GET, GET[:-2], post(10, sent=9), b"nonsense", post(MIB)):
            client = await served.connect()
            await client.say(text)
            await (client.hear() if text in (GET, post(MIB)) else asyncio.sleep(0.01))
            client.leave()
        await until(lambda: served.is_free)
        assert [each for each in gc.get_objects() if isinstance(each, Connection)] == []

    gc.collect()
    gc.disable()
    try:
        run(test)
    finally:
        gc.enable()


class Silent(asyncio.Transport):
    """A client's connection that never answers the end of TLS."""

    def __init__(self, unsent):
        super().__init__()
        self.calls = []
        self.unsent = unsent

    def write(self, data):
        """It goes nowhere."""

    def close(self):
        self.calls.append("close")

    def is_closing(self):
        return bool(self.calls)

    def get_write_buffer_size(self):
        return self.unsent

    def abort(self):
        self.calls.append("abort")


@pytest.mark.parametrize(("unsent", "seconds"), [(0, Limits().closing_seconds), (5, Limits().unread_seconds)])
def test_a_client_that_never_says_goodbye_is_cut_off_soon_or_when_it_had_time_to_read(unsent, seconds):
    async def test(served, loop):
        transport, (place, _) = Silent(unsent), socket.socketpair()
        with place, _:
            placed = Place(place, "127.0.0.1", lambda _: None)
            connection = served.make(placed)
            connection.connection_made(transport)
            connection.shutdown()
            await asyncio.sleep(seconds - 0.1)
            assert set(transport.calls) == {"close"}
            await asyncio.sleep(0.2)
            assert transport.calls[-1] == "abort"
            connection.connection_lost(None)

    virtual_time.run(test)


def test_an_answer_that_is_read_after_it_is_whole_leaves_the_idle_time_to_run():
    async def test(served, loop):
        transport, (place, _) = Silent(0), socket.socketpair()
        with place, _:
            placed = Place(place, "127.0.0.1", lambda _: None)
            connection = served.make(placed)
            connection.connection_made(transport)
            transport.write = lambda sent: sent.startswith(b"HTTP") or connection.pause_writing()
            connection.data_received(GET)
            await virtual_time.until(lambda: placed.stage is Stage.IDLE)
            connection.resume_writing()
            await asyncio.sleep(Limits().idle_seconds + 1)
            assert transport.calls[:1] == ["close"]
            connection.connection_lost(None)

    virtual_time.run(test)
