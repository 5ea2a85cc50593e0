"""Events on pods whose programs run without their limiter."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

from agent.kubernetes.api_server import ApiServerError
from agent.kubernetes.unlimited_events import REASON, UnlimitedEvents
from agent.state import Unlimited

FOUND = Unlimited("team", "train", "0123", "main", "a" * 64, 3, 10240)


class Api:
    """An API server that keeps what is made, but for pods that it refuses."""

    def __init__(self, *refused):
        self.refused, self.made = refused, []

    def create(self, path, body):
        if body["involvedObject"]["name"] in self.refused:
            raise ApiServerError("the API server answered 403: the namespace is being deleted")
        self.made.append((path, body))


def written(api, *rounds):
    """What is made after some rounds of findings; what was refused in the first is then accepted."""

    async def run():
        events = UnlimitedEvents(api, SimpleNamespace())
        for found in rounds:
            await events.write(found)
            api.refused = ()

    asyncio.run(run())
    return api.made


def test_a_pod_gets_one_event_that_names_the_container_without_its_limiter_and_what_to_do():
    [(path, body)] = written(Api(), [FOUND], [FOUND])
    assert path == "/api/v1/namespaces/team/events"
    known = {"apiVersion": "v1", "kind": "Pod"}
    assert body["involvedObject"] == {**known, "namespace": "team", "name": "train", "uid": "0123"}
    assert (body["reason"], body["type"]) == (REASON, "Warning")
    assert body["message"].startswith("container main uses GPU 3 without the limiter of its 10240 MiB: ")


def test_each_start_of_a_container_has_an_event_of_its_own_name():
    made = written(Api(), [FOUND], [], [FOUND], [replace(FOUND, container_id="b" * 64)])
    names = [body["metadata"]["name"] for _, body in made]
    assert names[0] == names[1] != names[2]


def test_an_event_that_fails_stops_no_other_and_is_tried_again():
    found = [FOUND, replace(FOUND, pod="other", container_id="b" * 64)]
    assert [body["involvedObject"]["name"] for _, body in written(Api("train"), found)] == ["other"]
    made = written(Api("train"), found, found)
    assert [body["involvedObject"]["name"] for _, body in made] == ["other", "train"]
