"""What waiting pods demand of their nodes is read when somebody asks, seldom, and kept within bounds."""

import asyncio
import json

import msgspec
import pytest

from controller.pods import pod_demands
from controller.pods.pod_demands import MAX_KEPT, READS_PER_SECOND, PodDemands
from controller.watch.resources import InjectedPod
from kube.scheduling import Constraints
from tests.cluster.objects import listed, pod
from tests.controller.watch.test_ledger_store import seen_pod


class Api:
    """An API server with pods of any name, all of which demand one zone."""

    def __init__(self):
        self.zone = "a"
        self.asked = []
        self.error = None

    async def request(self, _method, path, *, query, seconds):
        self.asked.append((path, query["fieldSelector"]))
        if self.error is not None:
            raise self.error
        assert seconds == pod_demands.READ_SECONDS
        found = pod(query["fieldSelector"].removeprefix("metadata.name="), node=None)
        found["spec"]["nodeSelector"] = {"zone": self.zone}
        return json.dumps(listed(found)).encode()


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def demands(api, clock):
    return PodDemands(api, clock)


def of(demands, *names, uid=None):
    """What pods demand, one after the other."""
    seen = [seen_pod(name) for name in names]
    if uid is not None:
        seen = [msgspec.structs.replace(each, injected=InjectedPod(uid=uid, asked="0.5")) for each in seen]

    async def main():
        return [await demands.of(each) for each in seen]

    return asyncio.run(main())


def test_a_pod_is_read_once_a_minute(api, demands, clock):
    assert of(demands, "x", "x") == [Constraints({"zone": "a"})] * 2
    assert api.asked == [("/api/v1/namespaces/team/pods", "metadata.name=x")]
    clock.now += pod_demands.KEPT_SECONDS
    of(demands, "x")
    assert len(api.asked) == 2


def test_another_pod_of_the_same_name_is_read_for_itself(api, demands):
    assert of(demands, "x", uid="x") == [Constraints({"zone": "a"})]
    assert of(demands, "x", uid="of another") == [None]
    assert len(api.asked) == 2


def test_some_pods_a_second_are_read_and_the_others_wait_for_their_turn(api, demands, clock):
    names = [f"p{number}" for number in range(READS_PER_SECOND + 3)]
    assert of(demands, *names).count(None) == 3
    assert len(api.asked) == READS_PER_SECOND
    clock.now += 1.0
    assert None not in of(demands, *names)


def test_after_a_failure_nothing_is_read_for_a_while(api, demands, clock):
    api.error = TimeoutError()
    assert of(demands, "x", "y") == [None, None]
    assert len(api.asked) == 1
    api.error = None
    clock.now += pod_demands.PAUSE_SECONDS
    assert of(demands, "x") == [Constraints({"zone": "a"})]


def test_a_pod_that_cannot_be_understood_delays_no_other(api, demands):
    api.zone = 7
    assert of(demands, "x", "x") == [None, None]
    assert len(api.asked) == 1
    api.zone = "a"
    assert of(demands, "y") == [Constraints({"zone": "a"})]


def test_what_is_kept_is_bounded_in_number_and_in_bytes(api, demands, clock):
    for number in range(MAX_KEPT + 10):
        clock.now += 0.1
        of(demands, f"p{number}")
    assert len(demands._kept) == MAX_KEPT
    api.zone = "z" * pod_demands.MAX_BYTES
    api.asked.clear()
    clock.now += 1.0
    assert of(demands, "large", "large") == ["too long"] * 2
    assert len(api.asked) == 1
