"""How a process ends: with clients that stay, and when its background work breaks."""

import pytest

from service.health import health_app
from service.http.connection import DRAIN_SECONDS
from service.http.serving import Listener, run, serve
from service.http.sockets import bind
from service.process import Process
from testbed.listening import GET
from testbed.process import WAIT_S
from tests.service import virtual_time


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
