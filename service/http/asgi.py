"""Answers of our own ASGI apps."""

from __future__ import annotations

from starlette.types import Send

JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; charset=utf-8")
CLOSE = (b"connection", b"close")
"""Tells the client that the connection ends with this answer."""

Headers = list[tuple[bytes, bytes]]


async def send_whole(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a response with a complete body and its length."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
