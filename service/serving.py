"""HTTP servers of one process: uvicorn on uvloop and httptools, with our own TLS, signals and drain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import httptools
import uvicorn
import uvloop

from service.http_protocol import HttpProtocol, Quick

KEEP_ALIVE_SECONDS = 120
"""The API server keeps idle connections 90 s; a shorter time of ours would race its next request."""
DRAIN_SECONDS = 20
"""For requests in flight, after new connections are refused."""


@dataclass(frozen=True, slots=True)
class Listener:
    """An ASGI app on a bound socket, plain or over TLS."""

    app: Any
    socket: socket.socket
    tls: ssl.SSLContext | None = None
    quick: Quick | None = None
    """What is answered past the app where that needs no waiting."""


def bind(host: str, port: int) -> socket.socket:
    """Bind a TCP socket; port 0 takes a free one.

    Raises:
        OSError: the address cannot be had; the message names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(
            f"cannot listen on {host}:{port}: {error.strerror}:"
            " stop what listens there, or choose another address or port"
        ) from error
    return bound


class _Server(uvicorn.Server):
    """A server that leaves signals to the process: it has more than one of them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _server(listener: Listener) -> _Server:
    config = uvicorn.Config(
        listener.app,
        http=cast("type[HttpProtocol]", partial(HttpProtocol, quick=listener.quick)),
        loop="uvloop",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        ssl_context_factory=_always(listener.tls) if listener.tls is not None else None,
    )
    return _Server(config)


def _always(context: ssl.SSLContext) -> Callable[..., ssl.SSLContext]:
    return lambda *_: context


async def serve(
    listeners: Sequence[Listener],
    *,
    background: Sequence[Coroutine[Any, Any, None]] = (),
    on_started: Callable[[], None],
    on_stopping: Callable[[], None],
    stop_delay_seconds: float,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    `on_stopping` makes the process unready; listeners serve on for `stop_delay_seconds`, until
    endpoints have forgotten it. A second signal ends the wait. `background` runs beside the servers;
    if any of it ends or fails, so does this.
    """
    servers = [_server(listener) for listener in listeners]
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    tasks = [
        asyncio.ensure_future(server.serve(sockets=[listener.socket]))
        for server, listener in zip(servers, listeners, strict=True)
    ]
    extra = [asyncio.ensure_future(coroutine) for coroutine in background]
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
    """Let answers say that their connection ends: else it is closed under a client's next request."""
    server.config.encoded_headers.append((b"connection", b"close"))
    # The server copies them only once a second.
    server.server_state.default_headers = list(server.config.encoded_headers)


async def _delay(stopping: asyncio.Event, seconds: float) -> None:
    stopping.clear()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), seconds)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a process on uvloop, after making sure that the fast parts are really there."""
    if not hasattr(httptools, "HttpRequestParser"):
        raise RuntimeError("httptools is installed but broken: its HttpRequestParser is missing")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)
