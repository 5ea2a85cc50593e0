"""What is wrong with the policies is reported on their ConfigMap, once for each mistake and hour."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cluster.kube_client import ApiError
from controller.policies.policy_events import MAX_PROBLEM, PolicyEvents

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)


class Policies:
    problem = None


class Api:
    def __init__(self):
        self.events = []
        self.error = None

    async def request(self, method, path, *, body=None, seconds=None):
        if self.error is not None:
            raise self.error
        if method == "GET":
            assert path == "/api/v1/namespaces/own/configmaps/fi-policies"
            return msgspec.json.encode({"metadata": {"uid": "u-1"}})
        assert (method, path) == ("POST", "/api/v1/namespaces/own/events")
        self.events.append(body)
        return b"{}"


@pytest.fixture
def world():
    api, policies = Api(), Policies()
    events = PolicyEvents(api, policies)

    def check(after=0):
        asyncio.run(events.check("own", "fi-policies", NOW + timedelta(minutes=after)))
        return len(api.events)

    return api, policies, check


def test_a_broken_set_is_an_event_on_its_config_map_once_an_hour(world):
    api, policies, check = world
    assert check() == 0
    policies.problem = "default.yaml:3: limitr: unknown key"
    assert (check(), check(1), check(59), check(60)) == (1, 1, 2, 2)
    first = api.events[0]
    assert first["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "own",
        "name": "fi-policies",
        "uid": "u-1",
    }
    assert (first["type"], first["reason"]) == ("Warning", "BrokenPolicies")
    assert first["message"].startswith("the policies are broken and not in force: default.yaml:3: limitr")
    assert first["message"].endswith("fraction-injector check lists every problem")
    assert first["metadata"]["name"] != api.events[1]["metadata"]["name"]


def test_another_mistake_and_the_same_one_after_it_was_fixed_are_reported(world):
    _, policies, check = world
    policies.problem = "a"
    assert check() == 1
    policies.problem = "b"
    assert check() == 2
    policies.problem = None
    assert check() == 2
    policies.problem = "b"
    assert check() == 3


def test_what_an_api_server_refuses_is_not_tried_all_the_time_and_its_absence_is(world):
    api, policies, check = world
    policies.problem = "a"
    api.error = TimeoutError()
    check()
    api.error = ApiError(403, "configmaps is forbidden")
    check()
    api.error = None
    assert check() == 0
    assert check(60) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_busy_is_asked_again_at_the_next_look(world, status):
    api, policies, check = world
    policies.problem = "a"
    api.error = ApiError(status, "try again")
    check()
    api.error = None
    assert check() == 1


def test_an_event_is_no_longer_than_an_api_server_takes(world):
    api, policies, check = world
    policies.problem = "x" * 100_000
    check()
    assert MAX_PROBLEM < len(api.events[0]["message"]) <= 1024
