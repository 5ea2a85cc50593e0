"""What webhooks say of the policies that they serve: metric, detail, and an Event when it is all of them."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from cluster.kube_client import ApiError
from controller.policies.policies_in_force import FIRST_CHECKS, PoliciesInForce
from controller.policies.served_policies import FORGET_SECONDS, MAX_WEBHOOKS, WebhookPolicies
from ledger.messages import ServedPolicies
from tests.controller.test_placement_api import api, ask, ready_state

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
OLD, NEW = "0123456789ab.00000001", "ba9876543210.00000002"


class Policies:
    problem = None
    digest = NEW


class Api:
    """An API server that keeps Events and has one ConfigMap."""

    def __init__(self):
        self.events = {}
        self.version = "7"
        self.error = None

    async def request(self, method, path, *, body=None, seconds=None):
        if self.error is not None:
            raise self.error
        if method == "GET":
            assert path == "/api/v1/namespaces/own/configmaps/fi-policies"
            return msgspec.json.encode({"metadata": {"uid": "u-1", "resourceVersion": self.version}})
        assert (method, path) == ("POST", "/api/v1/namespaces/own/events")
        if body["metadata"]["name"] in self.events:
            raise ApiError(409, "exists")
        self.events[body["metadata"]["name"]] = body
        return b"{}"


@pytest.fixture
def clock():
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def served(clock):
    return WebhookPolicies(clock)


@pytest.fixture
def world(served):
    server, policies = Api(), Policies()
    return server, policies, PoliciesInForce(server, policies, served)


def tell(served, **digests):
    for name, digest in digests.items():
        served.add(ServedPolicies(name, digest))


def look(loop, times=1):
    for _ in range(times):
        asyncio.run(loop.check("own", "fi-policies", NOW))


def figures(served):
    [family] = served.collect()
    return {sample.labels["digest"]: sample.value for sample in family.samples}


def test_an_event_tells_once_that_every_webhook_serves_a_change(world, served):
    server, _, loop = world
    tell(served, one=NEW, two=OLD)
    look(loop, FIRST_CHECKS + 3)
    assert server.events == {}
    tell(served, two=NEW)
    look(loop, 3)
    [event] = server.events.values()
    assert (event["type"], event["reason"]) == ("Normal", "PoliciesInForce")
    assert event["message"] == f"policies {NEW} are in force at every webhook (2): one, two"
    assert event["involvedObject"]["uid"] == "u-1"


def test_a_new_leader_waits_until_all_have_reported_and_reports_nothing_twice(world, served):
    server, policies, loop = world
    tell(served, one=NEW)
    look(loop, FIRST_CHECKS)
    assert server.events == {}
    look(loop)
    another = PoliciesInForce(server, policies, served)
    look(another, FIRST_CHECKS + 1)
    assert len(server.events) == 1


def test_policies_that_come_back_are_reported_again(world, served):
    server, policies, loop = world
    for version, digest in (("7", NEW), ("8", OLD), ("9", NEW)):
        server.version, policies.digest = version, digest
        tell(served, one=digest)
        look(loop, FIRST_CHECKS + 1)
    assert len(server.events) == 3


@pytest.mark.parametrize(("digest", "problem"), [(None, None), (NEW, "default.yaml:1: broken")])
def test_policies_that_are_broken_are_never_in_force(world, served, digest, problem):
    server, policies, loop = world
    policies.digest, policies.problem = digest, problem
    tell(served, one=NEW)
    look(loop, FIRST_CHECKS + 1)
    assert server.events == {}


def test_nothing_is_in_force_where_no_webhook_tells(world):
    server, _, loop = world
    look(loop, FIRST_CHECKS + 1)
    assert server.events == {}


def test_an_event_that_is_lost_ends_nothing(world, served, capfd):
    server, _, loop = world
    tell(served, one=NEW)
    server.error = ApiError(403, "no")
    look(loop, FIRST_CHECKS + 1)
    assert "an Event is lost" in capfd.readouterr().err


def test_a_webhook_that_is_silent_is_forgotten(served, clock):
    tell(served, one=OLD, two=NEW)
    clock.now = FORGET_SECONDS
    tell(served, two=NEW)
    assert figures(served) == {OLD: 1, NEW: 1}
    clock.now = FORGET_SECONDS + 0.1
    assert figures(served) == {NEW: 1}


def test_of_too_many_webhooks_those_that_reported_last_are_kept(served):
    tell(served, **{f"w{number}": OLD for number in range(MAX_WEBHOOKS)})
    tell(served, w0=OLD, other=NEW)
    kept = served.by_webhook()
    assert len(kept) == MAX_WEBHOOKS
    assert {"w0", "other"} <= kept.keys()
    assert "w1" not in kept


def test_the_detail_names_who_serves_others(served):
    assert served.detail(NEW) is None
    tell(served, one=NEW, two=OLD, three="")
    said = f"policies {NEW}: in force at 1 of 3 webhooks; three serves none; two serves {OLD}"
    assert served.detail(NEW) == said
    assert served.detail(None) is None


def post(controller, reported):
    return ask(controller, "POST", "/v1/served-policies", msgspec.json.encode(reported))


def test_the_leader_takes_what_webhooks_serve_and_a_standby_says_who_leads():
    leader, standby = api(ready_state("a")[0]), api(ready_state("a")[0], leads=False)
    assert post(leader, ServedPolicies("one", NEW)).status_code == 200
    reply = post(standby, ServedPolicies("one", NEW))
    assert (reply.status_code, reply.json()) == (409, {"leader": "https://other:9443"})


@pytest.mark.parametrize(
    ("webhook", "digest"),
    [("", NEW), ("a b", NEW), ("x" * 254, NEW), ("one", "x" * 64), ("one", "G"), ("one", None)],
)
def test_a_report_that_is_out_of_bounds_is_refused(webhook, digest):
    reply = post(api(ready_state("a")[0]), {"webhook": webhook, "digest": digest})
    assert (reply.status_code, reply.text[:24]) == (400, "not a report of policies")
    large = {"webhook": "one", "digest": NEW, "more": "x" * 2048}
    assert post(api(ready_state("a")[0]), large).status_code == 413
