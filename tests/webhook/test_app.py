"""The HTTP surface without a socket: what cannot be waited for, or made, over a real connection."""

import asyncio
import json

import pytest

from service.http.asgi import ON_LOST
from service.metrics import new_registry
from tests.webhook.support import UID, Webhook, pod, review_of
from webhook.app import MAX_BODY, WebhookApp
from webhook.metrics import WebhookMetrics

BODY = json.dumps(review_of(pod())).encode()
JSON = [(b"content-type", b"application/json")]


def post(*messages, headers=JSON, method="POST"):
    """The metrics, and what the app sends for a request whose body comes in these messages, then never."""
    sent = []

    async def ask():
        metrics = WebhookMetrics(new_registry())
        app = WebhookApp(Webhook().reviewer, metrics)
        coming = list(messages)

        async def receive():
            if not coming:
                await asyncio.Event().wait()
            return coming.pop(0)

        async def send(message):
            sent.append(message)

        state = {ON_LOST: set()}
        scope = {"type": "http", "method": method, "path": "/mutate", "headers": headers, "state": state}
        await app(scope, receive, send)
        return metrics

    return asyncio.run(ask()), sent


def part(body, *, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_in_many_parts_is_read_whole():
    parts = [part(BODY[at : at + 7], more=True) for at in range(0, len(BODY), 7)]
    _, (start, body) = post(*parts, part(b""))
    assert start["status"] == 200
    assert json.loads(body["body"])["response"]["uid"] == UID


@pytest.mark.parametrize("first", [[], [part(b"{", more=True)]])
def test_a_client_that_goes_away_gets_nothing(first):
    metrics, sent = post(*first, {"type": "http.disconnect"})
    assert sent == []
    assert metrics.unreadable._value.get() == 0.0


def test_the_body_cap_holds_without_a_length():
    half = part(b" " * (MAX_BODY // 2 + 1), more=True)
    _, (start, _) = post(half, half)
    assert start["status"] == 413


@pytest.mark.parametrize("body", [b"", b"hello", b"[" * 100_000, b'{"request":{}}', b"\x1f\x8b\x08\x00gzip"])
def test_what_is_no_review_gets_a_400_in_one_line(body):
    metrics, (start, answer) = post(part(body))
    assert (start["status"], dict(start["headers"])[b"content-type"]) == (400, b"text/plain; charset=utf-8")
    assert (answer["body"].count(b"\n"), answer["body"][-1:]) == (1, b"\n")
    assert metrics.unreadable._value.get() == 1.0


@pytest.mark.parametrize("length", [b"7340033", b"99999999999999999999999999999999"])
def test_a_length_over_the_cap_is_refused_before_the_body_is_read(length):
    _, (start, _) = post(headers=[*JSON, (b"content-length", length)])
    assert start["status"] == 413


TAKEN = [b"application/json", b"Application/JSON; charset=utf-8", b" application/json ;x=y"]
OTHER = [b"text/plain", b"application/yaml", b"application/jsonx", b"", None]


@pytest.mark.parametrize("media_type", [*TAKEN, *OTHER])
def test_json_is_taken_however_it_is_called_and_nothing_else(media_type):
    headers = [] if media_type is None else [(b"content-type", media_type)]
    _, (start, body) = post(part(BODY), headers=headers)
    assert start["status"] == (200 if media_type in TAKEN else 415)
    assert media_type in TAKEN or body["body"] == b"only application/json is accepted here\n"
