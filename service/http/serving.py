"""HTTP servers of one process: uvicorn on uvloop and httptools, with our own TLS, signals and drain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import uvloop

from service.http.connection import Server
from service.http.limits import BufferedBytes, Limits


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
    servers; if any of it ends or fails, this function ends too. If it is cancelled, all of this ends at once.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, stopping.set)
    held = BufferedBytes(min(listener.limits.held_bytes for listener in listeners))
    servers = [
        Server(each.app, each.socket, each.tls, limits=each.limits, held=held, clients=each.clients)
        for each in listeners
    ]
    tasks = [asyncio.ensure_future(coroutine) for coroutine in background]
    tasks += [server.acceptor.start() for server in servers]
    on_started()
    waiting = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        on_stopping()
        for server in servers:
            # Otherwise the connection could close under a client's next request.
            server.is_closing = True
        if stopping.is_set():
            stopping.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), stop_delay_seconds)
        ended = [task for task in tasks if task.done()]
        for task in (waiting, *tasks):
            task.cancel()
        await asyncio.gather(*(server.stop() for server in servers))
        for task in ended:
            task.result()
    finally:
        # Nothing else would end them if this is cancelled.
        for task in (waiting, *tasks):
            task.cancel()
        for server in servers:
            server.acceptor.end()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a process on uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)
