"""How a process ends: with clients that stay, and when its background work breaks."""

import pytest

from service.health import health_app, health_router
from service.http.serving import Listener, run, serve
from service.http.sockets import bind
from service.metrics import new_registry
from testbed.process import WAIT_S


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
