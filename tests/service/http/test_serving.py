"""How a process ends: with clients that stay, and when its background work breaks."""

import asyncio

import pytest
import uvloop

from service.health import health_app
from service.http.connection import DRAIN_SECONDS
from service.http.serving import Listener, run, serve
from service.http.sockets import bind
from service.process import Process
from testbed.listening import GET, OK, App, dial
from testbed.process import WAIT_S
from tests.service import virtual_time

LOOP = uvloop.new_event_loop


def test_when_background_work_breaks_the_process_ends_at_once_and_says_why():
    said = []

    async def breaks():
        raise RuntimeError("the watch is over")

    serving = serve(
        [Listener(health_app(Process("ours", (), 0).router(str)), bind("127.0.0.1", 0))],
        background=[breaks()],
        on_started=lambda: None,
        on_stopping=lambda: said.append("stopping"),
        stop_delay_seconds=WAIT_S,
        signals=(),
    )
    with pytest.raises(RuntimeError, match="the watch is over"):
        run(serving)
    assert said == ["stopping"]


async def test_its_work_and_its_connections_end_with_it_when_it_is_cancelled():
    started, bound = asyncio.Event(), bind("127.0.0.1", 0)
    working = asyncio.ensure_future(asyncio.Event().wait())
    port = bound.getsockname()[1]
    serving = serve(
        [Listener(App(), bound)],
        background=[working],
        on_started=started.set,
        on_stopping=lambda: None,
        stop_delay_seconds=0,
        signals=(),
    )
    async with asyncio.timeout(WAIT_S):
        task = asyncio.ensure_future(serving)
        await started.wait()
        client = await dial(port)
        assert (await client.ask()).startswith(OK)
        task.cancel()
        await asyncio.wait([task, working])
        assert await client.ended() == b""
        client.leave()
    assert task.cancelled()


def test_an_answer_that_takes_longer_than_all_are_given_at_the_end_is_cut_off():
    async def test(served, loop):
        with loop.time_stands():
            served.app.go.clear()
            client = await served.connect()
            await client.say(GET)
            await virtual_time.until(lambda: served.app.asked)
        await served.stop()
        assert loop.time() >= DRAIN_SECONDS
        assert await client.ended() == b""

    virtual_time.run(test)
