"""Lists in pages that are bounded by bytes."""

import asyncio
import json

import msgspec
import pytest

from cluster import kube_client, listing
from cluster.kube_client import TooLargeError
from cluster.listing import list_all, objects_at
from tests.cluster.fake_api import FakeApi, reply, talking_to
from tests.cluster.objects import listed, pod


class Named(msgspec.Struct):
    metadata: dict[str, str]


THINGS = objects_at("/things", Named)


class Pager:
    """An API server that lists objects of given sizes page by page.

    Attributes:
        asked: the limit of each request.
    """

    def __init__(self, *sizes):
        self.sizes = sizes
        self.asked = []

    async def request(self, _method, _path, *, query):
        limit, first = int(query["limit"]), int(query.get("continue", 0))
        shown = range(first, min(first + limit, len(self.sizes)))
        more = {"continue": str(shown.stop)} if shown.stop < len(self.sizes) else {}
        found = [{"metadata": {"name": f"n{each}"}, "x": "x" * self.sizes[each]} for each in shown]
        data = json.dumps({"metadata": more, "items": found}).encode()
        self.asked.append(limit)
        if len(data) > listing.MAX_ANSWER_BYTES:
            raise TooLargeError
        return data


@pytest.fixture
def bound(monkeypatch):
    for module in (kube_client, listing):
        monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 10_000)


def names(found):
    return [each.metadata["name"] for each in found]


@pytest.mark.usefixtures("bound")
class TestBound:
    def test_objects_that_do_not_fit_into_one_answer_come_in_smaller_pages(self):
        api = Pager(*[900] * 40)
        found = asyncio.run(list_all(api, THINGS))
        assert names(found) == [f"n{each}" for each in range(40)]
        assert api.asked == [500, 250, 125, 62, 31, 15, 7, 7, 7, 7, 7, 7]

    def test_pages_grow_again_after_large_objects(self):
        api = Pager(*[9000] * 3, *[10] * 600)
        assert len(asyncio.run(list_all(api, THINGS))) == 603
        assert api.asked[-1] > 8

    def test_an_object_that_is_larger_than_an_answer_is_an_error(self):
        with pytest.raises(TooLargeError):
            asyncio.run(list_all(Pager(10, 20_000), THINGS))

    def test_an_answer_is_read_only_up_to_the_bound(self):
        async def main():
            async with talking_to(
                FakeApi(reply(listed(pod("a", x="y" * 20_000))), reply({"ok": True}))
            ) as api:
                with pytest.raises(TooLargeError):
                    await api.request("GET", "/api/v1/pods")
                assert await api.request("GET", "/api/v1/pods") == b'{"ok": true}'

        asyncio.run(main())
