"""The webhook's HTTP interface: /mutate bypasses FastAPI's stack, which serves everything else."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from service.http.asgi import CLOSE, JSON, TEXT, send_whole
from service.http.fast_path import FastPathRoute
from webhook.admission_review import UnreadableReviewError
from webhook.metrics import WebhookMetrics
from webhook.review import Reviewer

MAX_BODY = 7 * 1024 * 1024
"""Bytes. The API server accepts objects of 3 MiB and sends the old one with the new one."""


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

    service.http.connection limits how long a body may take.
    """

    def __init__(self, reviewer: Reviewer, metrics: WebhookMetrics) -> None:
        super().__init__(title="GPU Fraction Injector", openapi_url=None)
        self._reviewer = reviewer
        self.fast_path = FastPathRoute(b"/mutate", reviewer.answer)
        """For the listener: answers complete reviews that can be decided at once, without ASGI."""
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer /mutate before any middleware, with its own error handling and body limit."""
        if scope["type"] != "http" or scope["path"] != "/mutate":
            await super().__call__(scope, receive, send)
            return
        try:
            body = await _read(scope, receive)
            if body is None:
                return
            await send_whole(send, 200, [JSON], await self._reviewer.review(body))
        except (_RefusedError, UnreadableReviewError) as error:
            self._metrics.unreadable.inc()
            await _refuse(send, error)


async def _read(scope: Scope, receive: Receive) -> bytes | None:
    """Read the body; None if the client has disconnected.

    Raises:
        _RefusedError: it cannot be a review.
    """
    _check_head(scope)
    return await _read_body(receive)


def _check_head(scope: Scope) -> None:
    if scope["method"] != "POST":
        raise _RefusedError(405, "only POST is allowed here", close=True)
    headers = dict(scope["headers"])
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise _RefusedError(415, "only application/json is accepted here", close=True)
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:20]) > MAX_BODY:
        raise _RefusedError(413, f"the body is over {MAX_BODY} bytes", close=True)


async def _read_body(receive: Receive) -> bytes | None:
    message = await receive()
    if message["type"] == "http.disconnect":
        return None
    parts = [message.get("body", b"")]
    size = len(parts[0])
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            raise _RefusedError(413, f"the body is over {MAX_BODY} bytes", close=True)
    return b"".join(parts)


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
