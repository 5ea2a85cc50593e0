"""What a client can take of a listener: one request at a time, so many bytes, so many seconds."""

import asyncio

import pytest
import uvloop
import yaml

from charts.generate import CHART
from service.http.asgi import send_whole, while_connected
from service.http.limits import Limits
from testbed.listening import GET, MIB, OK, POST, answering, post, serving, status, until
from tests.service import virtual_time

LOOP = uvloop.new_event_loop


@pytest.mark.parametrize("more", [GET, b"nonsense", b"\r\nG"])
@pytest.mark.parametrize("first", [GET, GET[:-2] + b"connection: close\r\n\r\n"])
async def test_a_request_before_the_answer_to_the_last_one_ends_both(first, more):
    async with serving() as served:
        served.app.go.clear()
        client = await served.connect()
        await client.say(first)
        await until(lambda: served.app.asked)
        await client.say(more)
        assert status(await client.ended()) == 400
        assert served.app.asked == ["/livez"]


@pytest.mark.parametrize(
    "header", [b"connection: close", b"connection: upgrade\r\nupgrade: h2c", b"connection: x, Close"]
)
async def test_a_request_that_ends_its_connection_or_asks_for_another_protocol_is_answered(header):
    async with serving() as served:
        client = await served.connect()
        await client.say(GET[:-2] + header + b"\r\n\r\n")
        answer = await client.ended()
        assert answer.startswith(OK)
        assert answer.count(b"connection: close") == 1


@pytest.mark.parametrize(
    "line", [b"CONNECT here:443 HTTP/1.1", b"GET http://[ HTTP/1.1", b"GET /\xff HTTP/1.1"]
)
async def test_an_address_that_is_none_is_a_400(line):
    async with serving() as served:
        client = await served.connect()
        await client.say(line + b"\r\nhost: here\r\n\r\n")
        assert status(await client.ended()) == 400
        assert served.app.asked == []


HEADERS = b"".join(b"x-%d: y\r\n" % number for number in range(101))


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + HEADERS + b"\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 40_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"y" * 40_000 + b": x\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * 40_000,
        b"GET /" + b"y" * 40_000,
    ],
)
@pytest.mark.parametrize("pieces", [1, 7])
async def test_a_head_that_is_too_large_is_refused_whole_or_in_part_and_however_it_comes(head, pieces):
    async with serving() as served:
        client = await served.connect()
        size = len(head) // pieces + 1
        for at in range(0, len(head), size):
            client.writer.write(head[at : at + size])
            await asyncio.sleep(0.001)
        assert status(await client.ended()) == 431
        assert served.app.asked == []


def test_the_limits_of_time_fit_those_of_an_api_server():
    """It drops a connection after 90 s of idleness, and waits for an answer as long as the chart says."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert Limits().idle_seconds > 90
    assert Limits().head_seconds + Limits().body_seconds < values["webhook"]["timeoutSeconds"]


@pytest.mark.parametrize(("count", "answered"), [(1, 200), (20, 431)])
async def test_trailers_count_as_headers(count, answered):
    chunked = POST + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + b"a: b\r\n" * 5 * count + b"\r\n"
    async with serving() as served:
        client = await served.connect()
        assert status(await client.ask(chunked)) == answered


async def test_a_trailer_may_say_that_the_connection_ends():
    chunked = POST + b"transfer-encoding: chunked\r\n\r\n0\r\nconnection: close\r\n\r\n"
    async with serving() as served:
        client = await served.connect()
        await client.say(chunked)
        assert status(await client.ended()) == 200


def test_a_body_that_the_app_does_not_read_in_time_is_not_its_clients_fault():
    async def test(served, _):
        served.app.reads.clear()
        client = await served.connect()
        await client.say(post(80_000, sent=79_999))
        answer = await client.ended()
        assert (status(answer), b"retry-after: 1\r\n" in answer) == (503, True)
        await virtual_time.until(lambda: served.acceptor.count == 0)
        assert served.held.total == 0

    virtual_time.run(test)


@pytest.mark.parametrize(
    ("part", "limits", "text"),
    [
        (GET[:-1], {"head_seconds": 0.01}, b"head incomplete after 0.01 s\n"),
        (b"\r\n\r\nG", {"head_seconds": 0.01}, b"head incomplete after 0.01 s\n"),
        (post(10, sent=9), {"head_seconds": 0.01, "body_seconds": 0.02}, b"body incomplete after 0.02 s\n"),
        (
            POST + b"transfer-encoding: chunked\r\n\r\n1;" + b"x" * 1000,
            {"head_seconds": 0.01, "body_seconds": 0.02},
            b"body incomplete after 0.02 s\n",
        ),
    ],
)
async def test_a_request_that_does_not_get_whole_is_ended_with_a_408(part, limits, text):
    async with serving(**limits) as served:
        client = await served.connect()
        await client.say(part)
        answer = await client.ended()
        assert (status(answer), answer.endswith(text)) == (408, True)
        await until(lambda: served.is_free)
        assert served.app.gone == len(served.app.asked)


@pytest.mark.parametrize("rest", [b"nonsense\r\n", b"1\r\nxnonsense", b"0\r\nno: trailer\r\n nonsense\x00"])
async def test_nonsense_in_a_body_is_a_400_for_it_and_the_app_is_notified(rest):
    async with serving() as served:
        client = await served.connect()
        await client.say(POST + b"transfer-encoding: chunked\r\n\r\n")
        await until(lambda: served.app.asked)
        await client.say(rest)
        assert status(await client.ended()) == 400
        await until(lambda: served.app.gone == 1)


async def test_no_second_answer_follows_one_that_has_begun():
    async def gone(receive):
        while (await receive())["type"] != "http.disconnect":
            pass

    async with serving(app=answering(200, b"begun", length=9, then=gone)) as served:
        client = await served.connect()
        await client.say(POST + b"transfer-encoding: chunked\r\n\r\n")
        await client.reader.readuntil(b"begun")
        await client.say(b"nonsense")
        assert await client.ended() == b""


async def test_an_answer_before_the_end_of_a_request_ends_the_connection():
    async with serving(app=answering(413, length=0)) as served:
        client = await served.connect()
        await client.say(post(10, sent=5))
        answer = await client.ended()
        assert (status(answer), answer.count(b"connection: close")) == (413, 1)


async def test_what_an_app_does_while_its_client_is_there_is_cancelled_when_the_client_leaves():
    begun, after = asyncio.Event(), asyncio.Event()

    async def app(scope, _receive, send):
        with while_connected(scope):
            begun.set()
            await asyncio.Event().wait()
        after.set()
        await send_whole(send, 200, [], b"")

    async with serving(app=app) as served:
        client = await served.connect()
        await client.say(GET)
        await begun.wait()
        client.leave()
        await after.wait()


async def test_an_app_that_fails_is_a_500_and_ends_the_connection():
    async def app(_scope, _receive, _send):
        raise ValueError("a fault")

    async with serving(app=app) as served:
        client = await served.connect()
        await client.say(GET)
        assert status(await client.ended()) == 500


async def test_the_sum_of_bodies_is_bounded_and_who_began_first_gives_way():
    """Ten bodies of 1 MiB, held at their last byte, where three have room."""
    async with serving(held_bytes=3 * MIB + 4096) as served:
        slow = [await served.connect() for _ in range(10)]
        for number, client in enumerate(slow):
            await client.say(post(MIB, sent=MIB - 1))
            await until(lambda begun=number + 1: len(served.app.asked) == begun)
            await until(lambda least=[0, 1, 2, *[2] * 7][number] * MIB: served.held.total >= least)
            assert served.held.total <= 3 * MIB + 4096
        for client in slow[:7]:
            answer = await client.ended()
            assert (status(answer), b"retry-after: 1\r\n" in answer) == (503, True)
        for client in slow[7:]:
            assert (await client.ask(b"x")).endswith(b"\r\n\r\n1048576")
        assert served.held.total == 0
        await until(lambda: served.app.gone == 7)


async def test_small_requests_pass_while_large_ones_fill_all_there_is():
    async with serving(held_bytes=MIB + 4096) as served:
        served.app.go.clear()
        large = await served.connect()
        await large.say(post(MIB))
        await until(lambda: served.held.total > MIB)
        small = await served.connect()
        await small.say(post(50_000, sent=40_000))
        await until(lambda: len(served.app.asked) == 2)
        another = await served.connect()
        assert status(await another.ask(post(MIB))) == 503
        served.app.go.set()
        assert (await small.ask(b"x" * 10_000)).endswith(b"\r\n\r\n50000")
        assert (await large.hear()).endswith(b"\r\n\r\n1048576")


async def test_clients_that_leave_give_back_what_they_held():
    async with serving() as served:
        clients = [await served.connect() for _ in range(5)]
        for client in clients:
            await client.say(post(MIB, sent=MIB // 2))
        await until(lambda: served.held.total >= 5 * MIB // 2)
        for client in clients:
            client.leave()
        await until(lambda: served.held.total == 0 and served.app.gone == 5)
