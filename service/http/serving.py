"""HTTP servers of one process: uvicorn on uvloop and httptools, with our own TLS, signals and drain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

import httptools
import uvicorn
import uvloop

from service.http.acceptor import Acceptor
from service.http.buffered_bytes import BufferedBytes
from service.http.client_names import is_good_for_one
from service.http.connection import Connection
from service.http.free_memory import keep_giving_back
from service.http.limits import Limits

DRAIN_SECONDS = 20
"""For requests in progress, after new connections are refused."""


@dataclass(frozen=True, slots=True)
class Listener:
    """An ASGI app on a bound socket, plain or over TLS."""

    app: Any
    socket: socket.socket
    tls: ssl.SSLContext | None = None
    clients: frozenset[str] | None = None
    """A client's certificate must be valid for one of these names; None admits all that TLS accepts."""
    limits: Limits = field(default_factory=Limits)
    role: Literal["health", "page"] | None = None
    """The purpose of a listener that is not the process's own."""


class _Server(uvicorn.Server):
    """A server that leaves signals to the process, which has several servers, and uses its own acceptor."""

    def __init__(self, config: uvicorn.Config, listener: Listener) -> None:
        super().__init__(config)
        self._listener = listener

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 has its own
        await self.lifespan.startup()
        listener = self._listener
        acceptor = Acceptor(listener.socket, self._connection, listener.tls, listener.limits)
        acceptor.start(self.config.backlog)
        # uvicorn only closes its servers.
        self.servers = [cast("asyncio.Server", acceptor)]
        self.started = True

    def _connection(self) -> Connection:
        made = self.config.http_protocol_class(
            config=self.config,  # type: ignore[call-arg] # as uvicorn itself calls it
            server_state=self.server_state,
            app_state={},
        )
        return cast("Connection", made)


def _server(listener: Listener, held: BufferedBytes) -> _Server:
    protocol = partial(
        Connection,
        limits=listener.limits,
        held=held,
        admits=_admission(listener),
    )
    config = uvicorn.Config(
        listener.app,
        http=cast("type[Connection]", protocol),
        loop="uvloop",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    return _Server(config, listener)


def _admission(listener: Listener) -> Callable[[asyncio.Transport], bool] | None:
    names = listener.clients
    if names is None:
        return None
    return lambda transport: is_good_for_one(transport.get_extra_info("peercert"), names)


async def serve(  # noqa: PLR0913 all by name
    listeners: Sequence[Listener],
    *,
    background: Sequence[Coroutine[Any, Any, None]] = (),
    on_started: Callable[[], None],
    on_stopping: Callable[[], None],
    stop_delay_seconds: float,
    signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT),
) -> None:
    """Serve until SIGTERM or SIGINT, then drain; without `signals`, as in a thread, until the process ends.

    `on_stopping` makes the process unready. Listeners keep serving for `stop_delay_seconds`, until endpoints
    no longer list the process. A second signal ends this wait. `background` runs in parallel with the
    servers; if any of it ends or fails, this function ends too.
    """
    held = BufferedBytes(min(listener.limits.held_bytes for listener in listeners))
    servers = [_server(listener, held) for listener in listeners]
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, stopping.set)
    tasks = [
        asyncio.ensure_future(server.serve(sockets=[listener.socket]))
        for server, listener in zip(servers, listeners, strict=True)
    ]
    extra = [asyncio.ensure_future(coroutine) for coroutine in (*background, keep_giving_back())]
    announced = asyncio.ensure_future(_announce(servers, on_started))
    waiting = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([waiting, *tasks, *extra], return_when=asyncio.FIRST_COMPLETED)
    on_stopping()
    for server in servers:
        _announce_close(server)
    if stopping.is_set():
        await _delay(stopping, stop_delay_seconds)
    for server in servers:
        server.should_exit = True
    for task in (announced, waiting, *(task for task in extra if not task.done())):
        task.cancel()
    await asyncio.gather(*tasks)
    for task in extra:
        if not task.cancelled() and task.done():
            task.result()


async def _announce(servers: Sequence[_Server], on_started: Callable[[], None]) -> None:
    while not all(server.started for server in servers):  # noqa: ASYNC110 uvicorn has no event for it
        await asyncio.sleep(0.005)
    on_started()


def _announce_close(server: uvicorn.Server) -> None:
    """Announce the close in answers; otherwise the connection could close under a client's next request."""
    server.config.encoded_headers.append((b"connection", b"close"))
    # The server copies them only once a second.
    server.server_state.default_headers = list(server.config.encoded_headers)


async def _delay(stopping: asyncio.Event, seconds: float) -> None:
    stopping.clear()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), seconds)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a process on uvloop, after checking that the compiled parts are available."""
    if not hasattr(httptools, "HttpRequestParser"):
        raise RuntimeError("httptools is installed but broken: its HttpRequestParser is missing")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)
