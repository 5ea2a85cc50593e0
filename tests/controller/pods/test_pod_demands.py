"""What waiting pods demand of their nodes is read when somebody asks, seldom, and kept within bounds."""

import asyncio
import json

import msgspec
import pytest

from controller.pods import pod_demands
from controller.pods.pod_demands import READS_PER_SECOND, DemandsReader, PodDemands
from controller.watch.resources import InjectedPod
from kube.scheduling import Constraints
from modes.claim_name import NamedShare
from tests.cluster.objects import listed, pod
from tests.controller.watch.test_ledger_store import Clock, seen_pod

IN_ZONE = PodDemands(Constraints({"zone": "a"}))


class Api:
    """An API server with pods of any name, all of which demand one zone."""

    def __init__(self):
        self.zone, self.claims = "a", []
        self.asked = []
        self.error = None

    async def request(self, _method, path, *, query, seconds):
        self.asked.append((path, query["fieldSelector"]))
        if self.error is not None:
            raise self.error
        assert seconds == pod_demands.READ_SECONDS
        found = pod(query["fieldSelector"].removeprefix("metadata.name="), node=None)
        found["spec"] |= {"nodeSelector": {"zone": self.zone}, "resourceClaims": self.claims}
        return json.dumps(listed(found)).encode()


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def clock():
    clock = Clock()
    clock.now = 100.0
    return clock


@pytest.fixture
def demands(api, clock):
    return DemandsReader(api, clock)


def of(demands, *names, uid=None, claimed=()):
    """What pods demand, one after the other."""
    seen = [seen_pod(name, claimed=claimed) for name in names]
    if uid is not None:
        seen = [msgspec.structs.replace(each, injected=InjectedPod(uid=uid, asked="0.5")) for each in seen]

    async def main():
        return [await demands.of(each) for each in seen]

    return asyncio.run(main())


def test_a_pod_is_read_once_for_many_looks(api, demands, clock):
    assert of(demands, "x", "x") == [IN_ZONE] * 2
    assert api.asked == [("/api/v1/namespaces/team/pods", "metadata.name=x")]
    clock.now += pod_demands.KEPT_SECONDS
    of(demands, "x")
    assert len(api.asked) == 2


def test_another_pod_of_the_same_name_is_read_for_itself(api, demands):
    assert of(demands, "x", uid="x") == [IN_ZONE]
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
    assert of(demands, "x") == [IN_ZONE]


def test_a_pod_that_cannot_be_understood_delays_no_other(api, demands):
    api.zone = 7
    assert of(demands, "x", "x") == [None, None]
    assert len(api.asked) == 1
    api.zone = "a"
    assert of(demands, "y") == [IN_ZONE]


def test_what_is_kept_is_bounded_in_number_and_in_bytes(api, demands, clock):
    for number in range(pod_demands.MAX_KEPT + 10):
        clock.now += 0.1
        of(demands, f"p{number}")
    assert len(demands._kept) == pod_demands.MAX_KEPT
    api.zone = "z" * pod_demands.MAX_BYTES
    api.asked.clear()
    clock.now += 1.0
    assert of(demands, "large", "large") == [PodDemands(None)] * 2
    assert len(api.asked) == 1


def test_a_pod_without_a_claim_of_ours_is_not_read_again_and_again(api, demands):
    api.claims = [{"name": "own", "resourceClaimTemplateName": "half"}]
    first, second = of(demands, "x", "x", claimed=(NamedShare(mib=60000),))
    assert first is second
    assert first.claim.state == "unread"
    assert len(api.asked) == 1
