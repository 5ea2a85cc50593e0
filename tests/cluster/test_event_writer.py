"""Events are written in a task of their own; what cannot be written is lost and counted."""

import asyncio

from cluster.event_writer import MAX_WAITING, EventWriter
from cluster.kube_client import ApiError


def an_event(namespace, name):
    return {"metadata": {"namespace": namespace, "name": name}, "reason": "Why"}


class Api:
    """An API server that keeps Events, answers with what is said, and then is silent."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.names = []
        self.seconds = set()

    async def request(self, _method, _path, *, body, seconds):
        self.names.append(body["metadata"]["name"])
        self.seconds.add(seconds)
        if self.answers and (answer := self.answers.pop(0)) is not None:
            raise answer


async def written(events, count, api):
    """Run the writer until so many requests were sent."""
    running = asyncio.create_task(events.run())
    while len(api.names) < count:  # noqa: ASYNC110 nothing tells it
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_nobody_waits_for_an_event_and_namespaces_take_turns():
    api, lost, counted = Api(), [], []

    events = EventWriter(api, lambda: lost.append(1))
    for number in range(3):
        events.write(an_event("many", f"m{number}"), lambda: counted.append(1))
    assert events.write(an_event("few", "f0"))
    assert not events.write(an_event("few", "f0"))
    assert api.names == []
    await written(events, 4, api)
    assert api.names == ["m0", "f0", "m1", "m2"]
    assert api.seconds == {3.0}
    assert (len(counted), lost) == (3, [])


async def test_an_event_that_is_not_taken_is_lost_and_one_that_exists_is_not_counted():
    api, lost, counted = Api(TimeoutError(), ApiError(409, "exists"), ApiError(403, "no")), [], []

    events = EventWriter(api, lambda: lost.append(1))
    for number in range(4):
        events.write(an_event("team", f"e{number}"), lambda: counted.append(1))
    await written(events, 4, api)
    assert (len(lost), len(counted)) == (2, 1)


async def test_who_fills_the_queue_loses_only_own_events():
    api, lost = Api(), []

    events = EventWriter(api, lambda: lost.append(1))
    events.write(an_event("few", "first"))
    for number in range(MAX_WAITING + 10):
        events.write(an_event("many", f"m{number}"))
    events.write(an_event("few", "second"))
    await written(events, 4, api)
    assert api.names[:4] == ["first", "m0", "second", "m1"]
    assert len(lost) == 12


async def test_a_new_term_writes_again_what_was_lost_in_an_earlier_one():
    api = Api(TimeoutError())

    events = EventWriter(api, lambda: None)
    events.write(an_event("team", "failed"))
    await written(events, 1, api)
    api.names.clear()
    assert events.write(an_event("team", "failed"))
    await written(events, 1, api)
    assert api.names == ["failed"]
