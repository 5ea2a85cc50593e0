"""Of large reviews, four of a namespace and 16 in all are in progress; the others wait unread."""

import asyncio
import json

from service.http.asgi import ON_LOST
from service.metrics import new_registry
from tests.webhook.support import container, pod, review_of
from webhook.app import WebhookApp
from webhook.large_reviews import IN_ALL, OF_A_NAMESPACE, START_BYTES, LargeReviews
from webhook.metrics import WebhookMetrics


async def settle():
    for _ in range(200):
        await asyncio.sleep(0)


def test_a_namespace_has_four_places_and_all_together_16():
    async def main():
        large, names = LargeReviews(), []

        async def hold(namespace):
            async with large.place(b'{"request":{"uid":"u","namespace":"%s","object":{' % namespace.encode()):
                names.append(namespace)
                try:
                    await asyncio.Event().wait()
                finally:
                    names.remove(namespace)

        flood = [asyncio.ensure_future(hold("team")) for _ in range(64)]
        await settle()
        assert names == ["team"] * OF_A_NAMESPACE
        others = [asyncio.ensure_future(hold(f"team-{number // 4}")) for number in range(64)]
        await settle()
        assert len(names) == IN_ALL
        for each in flood[:OF_A_NAMESPACE]:
            each.cancel()
        await settle()
        assert len(names) == IN_ALL
        for each in (*flood, *others):
            each.cancel()

    asyncio.run(main())


def test_a_name_of_an_object_is_not_taken_for_its_namespace():
    named = json.dumps({"request": {"name": '","namespace":"victim', "namespace": "team"}}).encode()

    async def main():
        held = LargeReviews()
        async with held.place(named):
            assert list(held._own) == [b"team"]

    asyncio.run(main())


class Reviewer:
    """Answers when it may."""

    def __init__(self):
        self.begun = 0
        self.go = asyncio.Event()

    async def review(self, _body):
        self.begun += 1
        await self.go.wait()
        return b"{}"


BODY = json.dumps(review_of(pod(containers=[container(args=["x" * 100_000])]))).encode()


class Client:
    """One request with a large body in parts of 4 KiB."""

    def __init__(self, app):
        self.sent, self.on_lost, self.read = [], set(), 0
        self._parts = [BODY[at : at + START_BYTES] for at in range(0, len(BODY), START_BYTES)]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
        scope = {"type": "http", "method": "POST", "path": "/mutate", "headers": headers}
        scope["state"] = {ON_LOST: self.on_lost}
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self):
        self.read += 1
        return {"type": "http.request", "body": self._parts.pop(0), "more_body": bool(self._parts)}

    async def _send(self, message):
        self.sent.append(message)

    def leave(self):
        while self.on_lost:
            self.on_lost.pop().cancel()


def test_a_review_without_a_place_is_not_read_and_its_clients_end_gives_the_place_to_the_next():
    async def main():
        reviewer = Reviewer()
        app = WebhookApp(reviewer, WebhookMetrics(new_registry()))
        *first, gone, last = clients = [Client(app) for _ in range(OF_A_NAMESPACE + 2)]
        await settle()
        assert (reviewer.begun, gone.read, last.read) == (OF_A_NAMESPACE, 1, 1)
        gone.leave()
        first[0].leave()
        await settle()
        assert (reviewer.begun, gone.sent, first[0].sent) == (OF_A_NAMESPACE + 1, [], [])
        reviewer.go.set()
        await asyncio.gather(*(client.task for client in clients))
        assert [bool(client.sent) for client in clients] == [False, True, True, True, False, True]

    asyncio.run(main())
