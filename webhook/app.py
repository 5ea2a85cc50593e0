"""The webhook's HTTP interface: /mutate bypasses FastAPI's stack, which serves everything else."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from service.http.asgi import JSON, TEXT, send_whole, while_connected
from service.http.limits import SMALL_BYTES
from webhook.admission_review import UnreadableReviewError
from webhook.large_reviews import START_BYTES, LargeReviews
from webhook.metrics import WebhookMetrics
from webhook.review import Reviewer

MAX_BODY = 7 * 1024 * 1024
"""Bytes. The API server accepts objects of 3 MiB and sends the old one with the new one."""
_TOO_LONG = f"the body is over {MAX_BODY} bytes"


class WebhookApp(FastAPI):
    """An ASGI app that answers POST /mutate itself.

    | situation | status |
    |---|---|
    | a readable review, with any content | 200, a review with its uid |
    | another method | 405 |
    | another media type | 415 |
    | a body over 7 MiB | 413 |
    | a body that is not an AdmissionReview | 400 |

    service.http.connection limits how long a body may take, and answers 503 if a large review finds no place
    (webhook/large_reviews.py) in that time.
    """

    def __init__(self, reviewer: Reviewer, metrics: WebhookMetrics) -> None:
        super().__init__(title="GPU Fraction Injector", openapi_url=None)
        self._reviewer = reviewer
        self._metrics = metrics
        self._large = LargeReviews()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer /mutate before any middleware, with its own error handling and body limit."""
        if scope["type"] != "http" or scope["path"] != "/mutate":
            await super().__call__(scope, receive, send)
            return
        try:
            with while_connected(scope):
                await send_whole(send, 200, [JSON], await self._answer(Request(scope, receive)))
        except ClientDisconnect:
            return
        except HTTPException as error:
            self._metrics.unreadable.inc()
            headers = [(name.encode(), value.encode()) for name, value in (error.headers or {}).items()]
            await send_whole(send, error.status_code, [TEXT, *headers], error.detail.encode() + b"\n")
        except UnreadableReviewError as error:
            self._metrics.unreadable.inc()
            await send_whole(send, 400, [TEXT], str(error).encode("utf-8", "replace") + b"\n")

    async def _answer(self, request: Request) -> bytes:
        """Answer a review; a large one waits for its place after its first bytes."""
        length, parts, body = _checked_length(request), request.stream(), bytearray()
        if length <= SMALL_BYTES:
            await _read(parts, body)
            return await self._reviewer.review(bytes(body))
        await _read(parts, body, START_BYTES)
        async with self._large.place(bytes(body[:START_BYTES])):
            await _read(parts, body)
            await self._large.turn()
            return await self._reviewer.review(bytes(body))


async def _read(parts: AsyncGenerator[bytes, None], body: bytearray, least: int = MAX_BODY + 1) -> None:
    """Read on until the body has so many bytes, or to its end.

    Raises:
        HTTPException: it is longer than MAX_BODY.
        ClientDisconnect: the client left before its end.
    """
    async for part in parts:
        body += part
        if len(body) > MAX_BODY:
            raise _refused(413, _TOO_LONG)
        if len(body) >= least:
            return


def _checked_length(request: Request) -> int:
    """Return the length that the head announces, MAX_BODY if none.

    Raises:
        HTTPException: it cannot be a review.
    """
    if request.method != "POST":
        raise _refused(405, "only POST is allowed here", allow="POST")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise _refused(415, "only application/json is accepted here")
    announced = request.headers.get("content-length", "")
    length = int(announced[:20]) if announced.isascii() and announced.isdigit() else MAX_BODY
    if length > MAX_BODY:
        raise _refused(413, _TOO_LONG)
    return length


def _refused(status: int, text: str, **headers: str) -> HTTPException:
    """Refuse a request whose body stays unread, so that its connection cannot be used again."""
    return HTTPException(status, text, {"connection": "close", **headers})
