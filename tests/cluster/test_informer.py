"""The watch loop against an API server that misbehaves."""

import asyncio
import dataclasses
from unittest.mock import Mock

import pytest

from cluster import kube_client
from cluster.informer import ABSENT_ANSWERS, ABSENT_SECONDS, Watcher
from cluster.watched_resource import WatchedResource
from controller.watch.resources import pods
from modes.resource_names import ResourceNames
from service.retry import Backoff
from service.yielding import CooperativeYield
from testbed.listening import until
from testbed.process import WAIT_S
from tests.cluster.fake_api import FakeApi, cut, forever, refusal, reply, talking_to, watch
from tests.cluster.objects import bookmark, event, listed, pod

FIRST_LIST = {"limit": "500"}


@pytest.fixture
def too_large(monkeypatch):
    """An answer that is larger than the bound, which is small here."""
    monkeypatch.setattr(kube_client, "MAX_ANSWER_BYTES", 2000)
    return reply({"metadata": {}, "items": [], "more": "x" * 2000})


def watching(version):
    return {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}


class Counts:
    def __init__(self):
        self.lists = 0
        self.troubles = []

    def listed(self, _resource):
        self.lists += 1

    def failed(self, _resource, reason):
        self.troubles.append(reason)


def follow(fake, expected, asked, *, health=None, optional=False):
    """Watch until the sink holds `expected` and so much was asked; give counts and pauses."""
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        await asyncio.sleep(0)

    known, counts = {}, Counts()
    watched = WatchedResource(
        key_of=lambda item: item.fact.key,
        keys=lambda: known,
        set=lambda item: known.update({item.fact.key: item.fact.slices}),
        remove=known.pop,
        listed=lambda: asyncio.sleep(0),
        yielding=CooperativeYield(),
    )

    async def main():
        async with talking_to(fake) as api, asyncio.timeout(WAIT_S):
            watcher = Watcher(
                api,
                dataclasses.replace(pods(ResourceNames()), is_optional=optional),
                watched,
                counts,
                silence_seconds=0.05 if health else 5.0,
                sleep=sleep,
                backoff=Backoff(random=Mock(uniform=lambda low, high: (low + high) / 2)),
                health=health,
            )
            task = asyncio.create_task(watcher.run())
            await until(lambda: known == expected)
            await fake.until_asked(asked)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return counts, pauses

    return asyncio.run(main())


def test_all_pages_of_a_list_come_before_the_watch():
    fake = FakeApi(reply(listed(pod("a"), more="next", version="7")), reply(listed(pod("b"), version="7")))
    counts, pauses = follow(fake, {("team", "a"): 4, ("team", "b"): 4}, asked=3)
    assert fake.queries == [FIRST_LIST, FIRST_LIST | {"continue": "next"}, watching("7")]
    assert (counts.lists, counts.troubles, pauses) == (1, [], [])


def test_events_change_what_was_listed():
    added, changed = (
        event("ADDED", pod("b", version="11")),
        event("MODIFIED", pod("a", slices=2, version="12")),
    )
    gone = event("DELETED", pod("b", version="13"))
    fake = FakeApi(reply(listed(pod("a"))), watch(added, changed, gone, end=False))
    follow(fake, {("team", "a"): 2}, asked=2)


def test_a_watch_that_ends_goes_on_from_its_bookmark():
    fake = FakeApi(reply(listed(pod("a"))), watch(bookmark("90")))
    counts, pauses = follow(fake, {("team", "a"): 4}, asked=3)
    assert fake.queries[1:] == [watching("10"), watching("90")]
    assert (counts.lists, counts.troubles, pauses) == (1, [], [])


def test_a_watch_without_a_word_is_not_begun_again_at_once():
    fake = FakeApi(reply(listed()), watch(), watch())
    counts, pauses = follow(fake, {}, asked=4)
    assert (counts.troubles, pauses) == ([], [0.1875, 0.375])


@pytest.mark.parametrize(
    "forgotten",
    [
        refusal(410, "too old resource version"),
        refusal(504, "Too large resource version"),
        watch(event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})),
        watch(b'{"type":"MODIFIED","object":{"metadata":\n'),
        watch(b"no JSON\n"),
    ],
)
def test_what_cannot_be_carried_on_is_listed_again(forgotten):
    fake = FakeApi(reply(listed(pod("a"), pod("b"))), forgotten, reply(listed(pod("b"), version="20")))
    counts, pauses = follow(fake, {("team", "b"): 4}, asked=4)
    assert fake.queries == [FIRST_LIST, watching("10"), FIRST_LIST, watching("20")]
    assert (counts.lists, counts.troubles, pauses) == (2, ["stale"], [0.1875])


def test_a_connection_that_breaks_within_an_event_loses_nothing():
    whole = event("ADDED", pod("b", version="11"))
    again = event("ADDED", pod("c", version="12"))
    fake = FakeApi(reply(listed(pod("a"))), cut(whole, tail=b'{"type":"AD'), watch(again, end=False))
    counts, _ = follow(fake, {("team", "a"): 4, ("team", "b"): 4, ("team", "c"): 4}, asked=3)
    assert fake.queries[1:] == [watching("10"), watching("11")]
    assert (counts.lists, counts.troubles) == (1, ["watch"])


def test_silence_ends_a_watch_and_another_goes_on_from_there():
    first = event("ADDED", pod("b", version="11"))
    fake = FakeApi(reply(listed(pod("a"))), watch(first, end=False))
    health = Mock()
    counts, _ = follow(fake, {("team", "a"): 4, ("team", "b"): 4}, asked=3, health=health)
    assert fake.queries[1:3] == [watching("10"), watching("11")]
    assert counts.troubles[0] == "watch"
    assert [name for name, *_ in health.method_calls[:4]] == ["answered", "observed", "observed", "failed"]


def test_too_many_requests_are_answered_by_patience():
    fake = FakeApi(refusal(429, Retry_After="7"), reply(listed(pod("a"))), refusal(429, Retry_After="3"))
    counts, pauses = follow(fake, {("team", "a"): 4}, asked=4)
    assert fake.queries == [FIRST_LIST, FIRST_LIST, watching("10"), watching("10")]
    assert (counts.troubles, pauses) == (["list", "watch"], [7.0, 3.0])


def test_pauses_grow_while_nothing_works_and_start_small_again_after_it_did():
    works = watch(bookmark("11"))
    fake = FakeApi(refusal(500), refusal(500), refusal(500), reply(listed()), works, refusal(500))
    _, pauses = follow(fake, {}, asked=7)
    assert pauses == [0.1875, 0.375, 0.75, 0.1875]


def test_a_list_whose_pages_are_forgotten_begins_again():
    fake = FakeApi(reply(listed(pod("a"), more="next")), refusal(410, "expired"), reply(listed(pod("b"))))
    follow(fake, {("team", "b"): 4}, asked=4)
    assert fake.queries == [FIRST_LIST, FIRST_LIST | {"continue": "next"}, FIRST_LIST, watching("10")]


def test_an_event_of_five_megabytes_is_one_event():
    large = pod("b", version="11", annotations={"large": "x" * 5_000_000})
    fake = FakeApi(reply(listed(pod("a"))), watch(event("ADDED", large), end=False))
    follow(fake, {("team", "a"): 4, ("team", "b"): 4}, asked=2)


def test_an_event_that_is_too_large_is_listed_again(too_large):
    fake = FakeApi(reply(listed(pod("a"))), too_large, reply(listed(pod("b"))))
    counts, _ = follow(fake, {("team", "b"): 4}, asked=3)
    assert counts.troubles == ["stale"]


ABSENT = refusal(404, "the server could not find the requested resource")


def test_a_resource_that_a_cluster_need_not_serve_is_asked_for_now_and_then_without_a_trouble():
    fake = FakeApi(ABSENT, ABSENT, reply(listed(pod("a"))))
    counts, pauses = follow(fake, {("team", "a"): 4}, asked=4, optional=True)
    assert (counts.lists, counts.troubles, pauses) == (1, [], [ABSENT_SECONDS] * 2)
    assert fake.queries == [FIRST_LIST] * 3 + [watching("10")]


def test_a_resource_that_was_served_is_gone_after_some_answers_in_a_row():
    fake = FakeApi(reply(listed(pod("a"))), *[ABSENT] * (1 + ABSENT_ANSWERS), forever)
    counts, pauses = follow(fake, {}, asked=3 + ABSENT_ANSWERS, optional=True)
    assert pauses.count(ABSENT_SECONDS) == 1
    assert counts.troubles == ["stale", *["list"] * (ABSENT_ANSWERS - 1)]


def test_what_is_known_stays_where_only_one_of_several_api_servers_serves_a_resource():
    found = reply(listed(pod("a")))
    counts, pauses = follow(
        FakeApi(*[found, ABSENT, ABSENT] * 4, found), {("team", "a"): 4}, asked=13, optional=True
    )
    assert counts.lists >= 4
    assert ABSENT_SECONDS not in pauses


def test_what_every_cluster_serves_is_asked_for_again_at_once_where_it_is_not_found():
    fake = FakeApi(refusal(404), reply(listed(pod("a"))))
    counts, pauses = follow(fake, {("team", "a"): 4}, asked=3)
    assert (counts.troubles, len(pauses)) == (["list"], 1)
