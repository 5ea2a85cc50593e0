"""How a process ends: with clients that stay, and when its background work breaks."""

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.health import health_app, health_router
from service.http.connection import Connection
from service.http.limits import Limits
from service.http.serving import Listener, run, serve
from service.http.sockets import bind
from service.metrics import new_registry
from testbed.process import WAIT_S


class Silent:
    """A client's connection that never answers the end of TLS."""

    def __init__(self):
        self.calls = []
        self.unsent = 0

    def get_extra_info(self, _name):
        return None

    def close(self):
        self.calls.append("close")

    def is_closing(self):
        return "close" in self.calls

    def get_write_buffer_size(self):
        return self.unsent

    def abort(self):
        self.calls.append("abort")


class Timer:
    """A timer of the loop, that may be cancelled."""

    cancelled = False

    def cancel(self):
        self.cancelled = True


class Clock:
    """A loop that only remembers what it should call later."""

    def __init__(self):
        self.later = []
        self.now = 0.0

    def time(self):
        return self.now

    def call_later(self, seconds, callback):
        timer = Timer()
        self.later.append((seconds, callback, timer))
        return timer


def clocked():
    """A protocol whose loop does nothing by itself."""
    config = uvicorn.Config(app=None, lifespan="off", log_config=None)
    config.load()
    return Connection(config, ServerState(), {}, _loop=Clock())


def test_an_idle_client_that_never_says_goodbye_is_cut_off_soon_on_shutdown():
    protocol = clocked()
    connection = Silent()
    protocol.connection_made(connection)
    protocol.shutdown()
    assert connection.calls == ["close"]
    (seconds, callback, _) = protocol.loop.later[-1]
    callback()
    assert (seconds, connection.calls) == (Limits().closing_seconds, ["close", "abort"])


def test_a_last_answer_is_sent_whole_before_a_client_that_stays_is_cut_off():
    protocol = clocked()
    connection = Silent()
    protocol.connection_made(connection)
    connection.close()
    connection.unsent = 5
    protocol.on_response_complete()
    protocol.loop.later.pop()[1]()
    assert connection.calls == ["close"]
    connection.unsent = 0
    protocol.loop.later.pop()[1]()
    assert connection.calls == ["close", "abort"]


def test_a_client_that_does_not_read_its_last_answer_is_cut_off_in_the_end():
    protocol = clocked()
    connection = Silent()
    protocol.connection_made(connection)
    connection.unsent = 5
    protocol.shutdown()
    protocol.loop.later.pop()[1]()
    protocol.loop.now += Limits().unread_seconds
    assert connection.calls == ["close"]
    protocol.loop.later.pop()[1]()
    assert connection.calls == ["close", "abort"]


def test_a_client_that_does_not_read_an_answer_is_cut_off():
    protocol = clocked()
    connection = Silent()
    protocol.connection_made(connection)
    protocol.pause_writing()
    (seconds, callback, timer) = protocol.loop.later[-1]
    assert seconds == Limits().unread_seconds
    protocol.resume_writing()
    assert timer.cancelled
    protocol.pause_writing()
    callback()
    assert connection.calls == ["abort"]


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_a_connection_that_ends_leaves_no_timer_that_would_hold_it(error):
    protocol = clocked()
    protocol.connection_made(Silent())
    protocol.pause_writing()
    protocol.connection_lost(error)
    assert [timer.cancelled for _, _, timer in protocol.loop.later] == [True, True]


def test_when_background_work_breaks_the_process_ends_at_once_and_says_why():
    said = []

    async def breaks():
        raise RuntimeError("the watch is over")

    serving = serve(
        [Listener(health_app(health_router(new_registry(), dict, str)), bind("127.0.0.1", 0))],
        background=[breaks()],
        on_started=lambda: None,
        on_stopping=lambda: said.append("stopping"),
        stop_delay_seconds=WAIT_S,
        signals=(),
    )
    with pytest.raises(RuntimeError, match="the watch is over"):
        run(serving)
    assert said == ["stopping"]
