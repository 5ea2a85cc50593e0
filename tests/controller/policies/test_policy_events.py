"""What is wrong with the policies is reported on their ConfigMap, once for each mistake and hour."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import msgspec
import pytest

from cluster.kube_client import ApiError
from controller.policies.policy_events import MAX_PROBLEM, PolicyEvents
from tests.cluster.events import KeptEvents

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)


class Policies:
    problem = None


class Api:
    error = None

    async def request(self, method, path):
        assert (method, path) == ("GET", "/api/v1/namespaces/own/configmaps/fi-policies")
        if self.error is not None:
            raise self.error
        return msgspec.json.encode({"metadata": {"uid": "u-1"}})


@pytest.fixture
def world():
    api, policies, kept = Api(), Policies(), KeptEvents()
    events = PolicyEvents(api, kept, policies)

    def check(after=0):
        asyncio.run(events.check("own", "fi-policies", NOW + timedelta(minutes=after)))
        return len(kept.bodies)

    return SimpleNamespace(api=api, policies=policies, kept=kept, check=check)


def test_a_broken_set_is_an_event_on_its_config_map_once_an_hour(world):
    assert world.check() == 0
    world.policies.problem = "default.yaml:3: limitr: unknown key"
    assert (world.check(), world.check(1), world.check(59), world.check(60)) == (1, 1, 2, 2)
    first = world.kept.bodies[0]
    on = first["involvedObject"]
    assert (on["kind"], on["namespace"], on["name"], on["uid"]) == ("ConfigMap", "own", "fi-policies", "u-1")
    assert (first["type"], first["reason"]) == ("Warning", "BrokenPolicies")
    assert first["message"].startswith("the policies are broken and not in force: default.yaml:3: limitr")
    assert first["message"].endswith("fraction-injector check lists every problem")


def test_another_mistake_is_reported_too(world):
    for problem in ("a", None, "b"):
        world.policies.problem = problem
        world.check()
    assert len(world.kept.bodies) == 2


def test_while_the_config_map_cannot_be_read_the_event_waits(world):
    world.policies.problem = "a"
    for world.api.error in (TimeoutError(), ApiError(503, "try again")):
        assert world.check() == 0
    world.api.error = None
    assert world.check() == 1


def test_an_event_is_no_longer_than_an_api_server_takes(world):
    world.policies.problem = "x" * 100_000
    world.check()
    assert MAX_PROBLEM < len(world.kept.bodies[0]["message"]) <= 1024
