"""The webhook's HTTP interface: /mutate bypasses FastAPI's stack, which serves everything else."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from service.http.asgi import CLOSE, JSON, TEXT, send_whole, while_connected
from service.http.limits import SMALL_BYTES
from webhook.admission_review import UnreadableReviewError
from webhook.large_reviews import START_BYTES, LargeReviews
from webhook.metrics import WebhookMetrics
from webhook.review import Reviewer

MAX_BODY = 7 * 1024 * 1024
"""Bytes. The API server accepts objects of 3 MiB and sends the old one with the new one."""


class _GoneError(Exception):
    """The client has disconnected."""


class _RefusedError(Exception):
    """A request that is not a review: status, and one line for the client."""

    def __init__(self, status: int, text: str, *, close: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.close = close
        """Whether the rest of the body stays unread, so that the connection cannot be reused."""


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
                await send_whole(send, 200, [JSON], await self._answer(scope, receive))
        except _GoneError:
            return
        except (_RefusedError, UnreadableReviewError) as error:
            self._metrics.unreadable.inc()
            await _refuse(send, error)

    async def _answer(self, scope: Scope, receive: Receive) -> bytes:
        """Answer a review; a large one waits for its place after its first bytes."""
        body = _Body(receive)
        if _checked_length(scope) <= SMALL_BYTES:
            return await self._reviewer.review(await body.read())
        async with self._large.place(await body.read(START_BYTES)):
            whole = await body.read()
            await self._large.turn()
            return await self._reviewer.review(whole)


class _Body:
    """A request's body, read as far as it is wanted."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._parts: list[bytes] = []
        self._size = 0
        self._has_more = True

    async def read(self, least: int = MAX_BODY + 1) -> bytes:
        """Return what has been read as soon as it has so many bytes, or all of it.

        Raises:
            _RefusedError: it is longer than MAX_BODY.
            _GoneError: the client left before its end.
        """
        while self._has_more and self._size < least:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            self._has_more = message.get("more_body", False)
            self._parts.append(message.get("body", b""))
            self._size += len(self._parts[-1])
            if self._size > MAX_BODY:
                raise _too_long()
        return b"".join(self._parts)


def _checked_length(scope: Scope) -> int:
    """Return the length that the head announces, MAX_BODY if none.

    Raises:
        _RefusedError: it cannot be a review.
    """
    if scope["method"] != "POST":
        raise _RefusedError(405, "only POST is allowed here", close=True)
    headers = dict(scope["headers"])
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise _RefusedError(415, "only application/json is accepted here", close=True)
    announced = headers.get(b"content-length", b"")
    length = int(announced[:20]) if announced.isdigit() else MAX_BODY
    if length > MAX_BODY:
        raise _too_long()
    return length


def _too_long() -> _RefusedError:
    return _RefusedError(413, f"the body is over {MAX_BODY} bytes", close=True)


async def _refuse(send: Send, error: _RefusedError | UnreadableReviewError) -> None:
    headers = [TEXT]
    status = 400
    if isinstance(error, _RefusedError):
        status = error.status
        if error.close:
            headers.append(CLOSE)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append((b"allow", b"POST"))
    await send_whole(send, status, headers, str(error).encode("utf-8", "replace") + b"\n")
