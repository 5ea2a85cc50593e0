"""Answers of our own ASGI apps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Scope, Send

JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; charset=utf-8")

ON_LOST = "on lost"
"""Key of a scope's state: a set of tasks that are cancelled, and removed, when the connection is lost."""

Headers = list[tuple[bytes, bytes]]


async def send_whole(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a response with a complete body and its length."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def while_connected(scope: Scope) -> Iterator[None]:
    """Cancel the current task's work inside when the client leaves; the task continues after it."""
    on_lost: set[asyncio.Task[Any] | None] = scope["state"][ON_LOST]
    task = asyncio.current_task()
    on_lost.add(task)
    try:
        yield
    except asyncio.CancelledError:
        if task in on_lost:
            raise
    finally:
        on_lost.discard(task)
