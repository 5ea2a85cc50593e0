"""Who may follow the stream: as many as there is room for, each as long as its right lasts."""

import asyncio

from tests.web.asking import Request, Source, is_whole, page_of, panels, watching
from tests.web.test_page import TokenAuthorizer
from web import places, stream
from web.source import PageRefusedError


def test_no_more_viewers_are_served_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(places, "MAX_VIEWERS", 1)
    source = Source("a")
    page = page_of(source)

    async def watch(request):
        await request.until(is_whole)
        other = await Request(page, "/stream").run()
        request.gone.set()
        return other

    other = watching(page, watch)
    message = b"there are 1 viewers already: close one, or try again later\n"
    assert (other.status, other.body) == (503, message)
    assert source.readers == []


class Viewers:
    """Streams of one page at once, by the namespace of each: `admin` sees all."""

    def __init__(self):
        self.page, self._open = page_of(Source("a"), TokenAuthorizer()), {}

    def _request(self, token):
        query = {} if token == "admin" else {"query": f"namespace={token}"}  # noqa: S105 - a made-up one
        return Request(self.page, "/stream", authorization=f"Bearer {token}", **query)

    async def comes(self, token):
        """One more, who is served until he leaves or is sent away."""
        request = self._request(token)
        self._open[request] = asyncio.create_task(request.run())
        await request.until(is_whole)
        return request

    async def tries(self, token):
        """One more, who is served if there is a place for him; return whether he is."""
        request = self._request(token)
        task = asyncio.create_task(request.run())
        served = asyncio.create_task(request.until(is_whole))
        await asyncio.wait({task, served}, return_when=asyncio.FIRST_COMPLETED)
        if served.done():
            self._open[request] = task
            return True
        served.cancel()
        return False

    async def refusal(self, token):
        """The answer to one more viewer than there are places."""
        answer = await self._request(token).run()
        return answer.status, answer.body.decode()

    async def sent_away(self, request):
        """Wait until one who was served is so no more."""
        await self._open.pop(request)

    async def leave(self, *requests):
        """Have these go, or all."""
        for request in requests or [*self._open]:
            request.gone.set()
            await self._open.pop(request)


def of_viewers(scenario):
    """Run a scenario of viewers, who all go in the end."""

    async def main():
        viewers = Viewers()
        async with asyncio.timeout(60):
            await scenario(viewers)
            await viewers.leave()

    asyncio.run(main())


def test_one_namespace_has_so_many_viewers_at_most(monkeypatch):
    monkeypatch.setattr(places, "MAX_OF_ONE_NAMESPACE", 1)

    async def scenario(viewers):
        first = await viewers.comes("team")
        message = "there are 1 viewers of this namespace already: close one, or try again later\n"
        assert await viewers.refusal("team") == (503, message)
        await viewers.comes("admin")
        await viewers.leave(first)
        await viewers.comes("team")

    of_viewers(scenario)


def test_viewers_of_namespaces_leave_room_for_who_sees_all():
    async def scenario(viewers):
        for namespace in ("one", "two"):
            for _ in range(places.MAX_OF_ONE_NAMESPACE):
                await viewers.tries(namespace)
        assert await viewers.tries("admin")

    of_viewers(scenario)


def test_a_newcomers_namespace_gets_the_place_of_the_one_that_has_most(monkeypatch):
    monkeypatch.setattr(places, "MAX_OF_NAMESPACES", 4)
    monkeypatch.setattr(stream, "BEAT_SECONDS", stream.GATHER_SECONDS)

    async def scenario(viewers):
        greedy = [await viewers.comes("greedy") for _ in range(3)]
        other = await viewers.comes("other")
        await viewers.comes("newcomer")
        # The last to come goes first, and may not come back at the expense of who has less.
        await viewers.sent_away(greedy[2])
        message = "there are 4 viewers already: close one, or try again later\n"
        for namespace in ("greedy", "newcomer"):
            assert await viewers.refusal(namespace) == (503, message)
        await viewers.comes("fourth")
        await viewers.sent_away(greedy[1])
        assert (await viewers.refusal("fifth"))[0] == 503
        await viewers.leave(other)
        await viewers.comes("fifth")
        assert not greedy[0].gone.is_set()

    of_viewers(scenario)


def test_nobody_follows_the_ledger_when_the_last_viewer_has_gone():
    source = Source("a")
    watching(page_of(source), lambda request: request.until(panels))
    assert source.readers == []


def test_a_right_that_is_taken_away_ends_the_stream(monkeypatch):
    monkeypatch.setattr(stream, "ADMITTED_SECONDS", 0.0)
    authorizer = TokenAuthorizer()

    async def watch(request):
        await request.until(is_whole)
        authorize = authorizer.authorize
        authorizer.authorize = lambda _token, namespace: authorize("", namespace)
        return await request.until(lambda events: any(name == "refused" for name, _ in events))

    events = watching(page_of(Source("a"), authorizer), watch, authorization="Bearer admin")
    assert events[-1] == ("refused", "send a bearer token")


def test_a_reader_who_takes_the_first_rows_slowly_loses_a_right_in_the_middle_of_them(monkeypatch):
    monkeypatch.setattr(stream, "ADMITTED_SECONDS", 0.0)
    authorizer, source = TokenAuthorizer(), Source("secret")
    authorize, asked = authorizer.authorize, []

    async def once(token, namespace):
        asked.append(token)
        return await authorize(token if len(asked) == 1 else "", namespace)

    authorizer.authorize = once
    request = Request(page_of(source, authorizer), "/stream", authorization="Bearer admin")

    async def main():
        task = asyncio.create_task(request.run())
        await request.until(lambda events: any(name == "refused" for name, _ in events))
        request.gone.set()
        await task

    asyncio.run(main())
    assert request.events() == [("refused", "send a bearer token")]


def test_a_stream_ends_without_a_word_against_the_token_where_nobody_can_say_whose_it_is(monkeypatch):
    monkeypatch.setattr(stream, "ADMITTED_SECONDS", 0.0)
    authorizer = TokenAuthorizer()

    async def away(_token, _namespace):
        raise PageRefusedError(503, "try again in a minute")

    async def main():
        request = Request(page_of(Source("a"), authorizer), "/stream", authorization="Bearer admin")
        admitted = asyncio.create_task(authorizer.authorize("admin", ""))
        await admitted
        answers = iter([admitted, asyncio.create_task(away("", ""))])
        authorizer.authorize = lambda _token, _namespace: next(answers)
        await request.run()
        return request.events()

    assert "refused" not in [name for name, _ in asyncio.run(main())]


def test_who_is_refused_has_no_node_walked_and_takes_no_viewers_place(monkeypatch):
    monkeypatch.setattr(places, "MAX_VIEWERS", 1)
    source, authorizer = Source("a"), TokenAuthorizer()
    page, authorize = page_of(source, authorizer), authorizer.authorize
    subscribed = []
    subscribe = source.subscribe
    source.subscribe = lambda: subscribed.append(1) or subscribe()

    async def main():
        answered = asyncio.Event()

        async def slow(token, namespace):
            if token != "admin":  # noqa: S105 - a made-up one
                await answered.wait()
            return await authorize(token, namespace)

        authorizer.authorize = slow
        stranger = asyncio.create_task(Request(page, "/stream", authorization="Bearer made-up").run())
        await asyncio.sleep(0)
        viewer = Request(page, "/stream", authorization="Bearer admin")
        watching_it = asyncio.create_task(viewer.run())
        async with asyncio.timeout(60):
            await viewer.until(is_whole)
        answered.set()
        refused = await stranger
        page.stop()
        viewer.gone.set()
        await watching_it
        return refused.status

    assert asyncio.run(main()) == 401
    # The viewer's own, and the panels'.
    assert len(subscribed) <= 2
