"""What is answered at once, and what goes uvicorn's way: over real sockets on loopback."""

import asyncio

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from service.http.fast_path import FastPathConnection, FastPathRoute
from testbed.process import WAIT_S

BODY = b'{"number": 1}'
HEAD = b"POST /quick HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"
CHUNKED_IN_FULL = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"


def request(body=BODY, head=HEAD):
    return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)


class Served:
    """A server with a quick path, an app that says so when it is asked, and one connection to it."""

    def __init__(self, answer):
        self.app_calls = 0
        self.state = ServerState()
        self._answer = answer

    async def app(self, scope, receive, send):
        self.app_calls += 1
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        said = b"app: " + body
        headers = [(b"content-length", b"%d" % len(said))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": said})

    async def __aenter__(self):
        config = uvicorn.Config(
            self.app, interface="asgi3", lifespan="off", log_config=None, access_log=False
        )
        config.load()
        loop, route = asyncio.get_running_loop(), FastPathRoute(b"/quick", self._answer)
        self._server = await loop.create_server(
            lambda: FastPathConnection(config, self.state, {}, route=route), "127.0.0.1", 0
        )
        self.reader, self.writer = await asyncio.open_connection(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        self._server.close()
        for connection in list(self.state.connections):
            connection.transport.abort()

    async def say(self, text):
        self.writer.write(text)
        await self.writer.drain()

    async def hear(self):
        """One answer: its head's lines in small letters, and its body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(line.partition(": ")[2]) for line in head if line.startswith("content-length"))
        return head, await self.reader.readexactly(length)

    async def ended(self):
        """What came before the end; a reset is one too."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""

    async def ask(self, text):
        await self.say(text)
        return (await self.hear())[1]


async def until(condition):
    while not condition():  # noqa: ASYNC110 nobody sets an event for what is seen from outside
        await asyncio.sleep(0)


def at_once(body):
    return b"quick: " + body


def run(test, answer=at_once):
    async def main():
        async with asyncio.timeout(WAIT_S), Served(answer) as served:
            await test(served)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize(
    "whole",
    [
        request(),
        request(b""),
        request(head=HEAD.replace(b"/quick", b"/quick?timeout=5s")),
        request(head=HEAD.replace(b"/quick", b"/quick?timeout=10s&x=%2F?")),
        HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
    ],
)
def test_a_request_that_comes_whole_is_answered_without_the_app(whole):
    async def test(served):
        for _ in range(3):
            await served.say(whole)
            head, body = await served.hear()
            assert head[:2] == ["http/1.1 200 ok", "content-type: application/json"]
            assert body.startswith(b"quick: ")
        assert (served.app_calls, served.state.total_requests) == (0, 3)

    run(test)


@pytest.mark.parametrize(
    "other",
    [
        request(head=HEAD.replace(b"POST", b"PUT")),
        request(head=HEAD.replace(b"/quick", b"/quick/")),
        request(head=HEAD.replace(b"/quick", b"/quic?k")),
        request(head=HEAD.replace(b"/quick", b"/other?/quick")),
        request(head=HEAD.replace(b"/quick", b"/%71uick")),
        request(head=HEAD.replace(b"application/json", b"text/plain")),
        request(head=HEAD.replace(b"application/json", b"application/json; charset=utf-8")),
        request(head=HEAD.replace(b"HTTP/1.1", b"HTTP/1.0")),
        request(head=HEAD + b"connection: close\r\n"),
    ],
)
def test_any_other_request_is_the_apps(other):
    async def test(served):
        assert await served.ask(other) == b"app: " + BODY
        assert served.app_calls == 1

    run(test)


def test_a_wish_for_another_protocol_is_the_apps_to_ignore():
    async def test(served):
        assert (await served.ask(request(head=HEAD + b"connection: upgrade\r\nupgrade: h2c\r\n")))[
            :4
        ] == b"app:"

    run(test)


def test_a_body_that_is_announced_with_expect_is_asked_for_first():
    async def test(served):
        await served.say(HEAD + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert await served.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert await served.ask(b"{}") == b"app: {}"

    run(test)


@pytest.mark.parametrize("cut", [1, len(HEAD), len(request()) - len(BODY), len(request()) - 1])
def test_a_request_in_two_parts_is_answered_all_the_same(cut):
    async def test(served):
        whole = request()
        await served.say(whole[:cut])
        await until(lambda: served.state.connections)
        assert await served.ask(whole[cut:]) in {b"app: " + BODY, b"quick: " + BODY}
        assert await served.ask(whole) == b"quick: " + BODY

    run(test)


GET = b"GET /other HTTP/1.1\r\nhost: here\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "said"), [(request(b"1"), b"quick: 1"), (GET, b"app: "), (CHUNKED_IN_FULL, b"quick: {}")]
)
@pytest.mark.parametrize("later", [request(b"2"), GET, b"nonsense", b"\x00", request(b"2")[:20]])
def test_a_request_that_begins_before_the_answer_to_another_ends_the_connection_after_that(
    first, said, later
):
    async def test(served):
        await served.say(first + later + GET * 1000)
        assert (await served.hear())[1] == said
        assert await served.ended() == b""
        assert served.state.total_requests == 1

    run(test)


def test_empty_lines_between_requests_are_no_request():
    async def test(served):
        assert await served.ask(b"\r\n" + request(b"1") + b"\r\n\r\n") == b"quick: 1"
        assert await served.ask(request(b"2")) == b"quick: 2"

    run(test)


class PendingView:
    """Answers that come when they are let go, or fail."""

    def __init__(self):
        self.futures = []
        self.ended = []

    async def answer(self, body):
        try:
            for _ in range(2):
                future = asyncio.get_running_loop().create_future()
                self.futures.append(future)
                await future
        except ValueError:
            return b"failed: " + body
        finally:
            self.ended.append(body)
        return b"waited: " + body

    async def let_go(self, number):
        await until(lambda: len(self.futures) > number)
        self.futures[number].set_result(None)


def test_an_answer_that_waits_is_sent_when_it_is_there_and_what_came_meanwhile_is_not_read():
    waiting = PendingView()

    async def test(served):
        await served.say(request(b"1") + request(b"2"))
        await waiting.let_go(0)
        await served.say(request(b"3"))
        await waiting.let_go(1)
        head, body = await served.hear()
        assert (head[1], body) == ("content-type: application/json", b"waited: 1")
        assert "connection: close" in head
        await served.ended()
        assert (waiting.ended, served.app_calls) == ([b"1"], 0)

    run(test, waiting.answer)


def test_a_request_that_comes_later_than_another_but_before_its_answer_ends_the_connection_too():
    waiting = PendingView()

    async def test(served):
        await served.say(request(b"1"))
        await waiting.let_go(0)
        (connection,) = served.state.connections
        await served.say(request(b"2"))
        await until(lambda: connection.flow.read_paused)
        await waiting.let_go(1)
        assert (await served.hear())[1] == b"waited: 1"
        await served.ended()
        assert (waiting.ended, served.app_calls) == ([b"1"], 0)

    run(test, waiting.answer)


def test_an_error_reaches_every_waiter():
    waiting = PendingView()

    async def test(served):
        await served.say(request())
        await waiting.let_go(0)
        await until(lambda: len(waiting.futures) >= 2)
        waiting.futures[1].set_exception(ValueError())
        assert (await served.hear())[1] == b"failed: " + BODY
        assert waiting.ended == [BODY]

    run(test, waiting.answer)


def test_an_answer_that_waits_is_cancelled_when_its_client_leaves():
    waiting = PendingView()

    async def test(served):
        await served.say(request())
        await until(lambda: waiting.futures)
        served.writer.transport.abort()
        await until(lambda: not served.state.tasks)
        assert (waiting.ended, waiting.futures[0].cancelled()) == ([BODY], True)

    run(test, waiting.answer)


def test_what_the_quick_answer_cannot_make_is_the_apps_to_say():
    def refusing(body):
        raise ValueError(body)

    async def test(served):
        assert await served.ask(request()) == b"app: " + BODY
        assert await served.ask(request(b"2")) == b"app: 2"

    run(test, refusing)


def test_while_the_process_drains_answers_end_their_connections():
    async def test(served):
        assert await served.ask(request()) == b"quick: " + BODY
        served.state.default_headers = [(b"connection", b"close")]
        await served.say(request())
        head, body = await served.hear()
        assert (body, "connection: close" in head) == (b"app: " + BODY, True)
        assert await served.reader.read() == b""

    run(test)


def test_nonsense_after_a_head_gets_a_400_and_no_answer():
    async def test(served):
        await served.say(HEAD + b"transfer-encoding: chunked\r\n\r\nnonsense\r\n")
        received = await served.reader.read()
        assert received.startswith(b"HTTP/1.1 400 ")
        assert b"quick" not in received
        assert served.app_calls == 0

    run(test)


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt])
def test_whatever_a_quick_answer_raises_is_not_put_down_to_the_client(error):
    def ended(body):
        raise error

    async def test(served):
        assert await served.ask(request()) == b"app: " + BODY

    run(test, ended)


CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize("cut", [0, len(CHUNKED) - 2, CHUNKED.index(b"0\r\nconn")])
def test_a_trailer_that_ends_the_connection_ends_it(cut):
    async def test(served):
        if cut:
            await served.say(CHUNKED[:cut])
            await until(lambda: served.state.tasks)
        await served.say(CHUNKED[cut:])
        head, body = await served.hear()
        assert (body, "connection: close" in head) == (b"app: {}", True)
        assert await served.reader.read() == b""

    run(test)
