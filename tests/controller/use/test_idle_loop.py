"""Which idle pods are warned and evicted: against an API server of a few lines, by a clock of the test's."""

import json
from datetime import UTC, datetime

import pytest

from controller.policies.idle_shares import IdleShares
from controller.use.eviction import IdleEviction
from controller.use.idle_loop import HELD_SECONDS, MAX_EVICTED, IdleLoop
from controller.use.store import WARNINGS, UseStore
from kube.dra import DRIVER
from modes.claim import ClaimedShare
from modes.fraction import Fraction
from policies.model.effective import IdleRule
from tests.cluster.fake_api import refusal, reply
from tests.cluster.objects import claiming, listed, node, pod
from tests.controller.cards import offer
from tests.controller.world import World

RULE = IdleRule(600, evicts=True, grace_seconds=300)
NOTES = {"clearml-injector/injected": "default@1", "clearml-injector/slices": "4"}
POD = "/api/v1/namespaces/team/pods"
EVENTS, EVICTION = "/api/v1/namespaces/team/events", f"{POD}/a/eviction"
STORE = "/api/v1/namespaces/ours/configmaps/use"
WARN = [("POST", EVENTS), ("PATCH", STORE)]
EVICT = [("GET", POD), ("POST", EVICTION), ("POST", EVENTS)]
OK = reply({})


def time(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def container(started=0):
    return {"state": {"running": {"startedAt": time(started)}}}


RUNNING = {"phase": "Running", "containerStatuses": [container()]}


def idle_pod(name="a", status=RUNNING, **metadata):
    made = {"labels": {"clearml-injector/fraction": "0.500"}, "annotations": NOTES}
    made["creationTimestamp"] = "1970-01-01T00:00:00Z"
    return pod(name, node="gpu-0", **made | metadata) | {"status": status}


def report(measured, idle_since, pods=("a",)):
    use = {"namespace": "team", "container": "task", "gpu": 0, "since": time(0)}
    use |= dict.fromkeys(("memoryMiB", "usedMiB", "peakMiB", "p95MiB"), 100)
    use |= {"idleSince": time(idle_since)} if idle_since is not None else {}
    usage = {
        "count": len(pods),
        "measured": time(measured),
        "containers": [{**use, "pod": each} for each in pods],
    }
    status = {"registered": True, "gpus": [], "usage": usage}
    return {"metadata": {"name": "gpu-0", "resourceVersion": "1"}, "status": status}


class IdleWorld(World):
    """A node with one pod."""

    def start(self):
        self.rule, self.pods = RULE, ("a",)
        self.add_node(node("gpu-0"))
        self.add(idle_pod())
        self.restart()

    def restart(self):
        """Another replica leads: only what is stored is left."""
        self.loop = IdleLoop(
            IdleEviction(self.api, self.events, self.leading, self.metrics),
            UseStore(self.api, "ours", "use"),
            self.state,
            IdleShares(self.state, lambda *_: self.rule),
            self.leading,
            metrics=self.metrics,
            reason_not_to_lead=lambda: self.reason,
            clock=lambda: self.now,
        )

    async def reported(self, measured, *answers, idle_since=100):
        """The agent's next report arrives; return what was asked in the step after it."""
        self.report(report(measured, idle_since, self.pods))
        return await self.step(*answers, after=10)

    async def warned(self):
        """Let the agent report until the pod was warned, on the report of second 860."""
        assert await self.reported(800, reply({"data": {}})) == [("GET", STORE)]
        assert await self.reported(860, OK, OK) == WARN
        return self.fake.asked


@pytest.fixture
async def world():
    async with IdleWorld.running() as world:
        yield world


async def test_an_idle_pod_is_warned_then_evicted_once_after_the_grace(world):
    (_, _, _, event), (_, _, _, stored) = await world.warned()
    assert (event["reason"], event["type"]) == ("IdleShareWarning", "Warning")
    assert event["message"].endswith(": it is evicted after another 5 min, unless one runs")
    assert json.loads(stored["data"][WARNINGS]) == {"a": [100, 860]}
    assert await world.reported(1159) == []
    assert await world.reported(1160, reply(listed(idle_pod())), OK, OK) == EVICT
    (_, _, _, eviction), (_, _, _, event) = world.fake.asked[1:]
    assert (eviction["kind"], eviction["deleteOptions"]) == ("Eviction", {"preconditions": {"uid": "a"}})
    assert event["reason"] == "IdleShareEvicted"
    ending = idle_pod(deletionTimestamp=time(1200))
    assert await world.reported(1220) == []
    world.now += HELD_SECONDS
    assert await world.reported(1280, reply(listed(ending))) == [("GET", POD)]


async def test_an_idle_pod_with_a_claim_is_warned_too_and_counts_as_eighths_of_its_card(world):
    share = ClaimedShare(DRIVER, Fraction.of_memory(30720, 8), (81920,))
    world.state.watched_offers.set(offer("gpu-0"))
    world.add(claiming(idle_pod(), share))
    await world.warned()
    assert [(each.key, each.slices) for each in world.loop._idle.on_node("gpu-0")] == [(("team", "a"), 3)]


async def test_the_next_leader_knows_the_warning_and_waits_for_a_new_report(world):
    await world.warned()
    world.restart()
    stored = reply({"data": {WARNINGS: '{"a": [100, 860]}'}})
    assert await world.reported(1200, stored) == [("GET", STORE)], "the report may be years old"
    assert await world.reported(1260, reply(listed(idle_pod())), OK, OK) == EVICT


async def test_nobody_is_evicted_whose_warning_was_not_stored(world):
    await world.reported(800, reply({"data": {}}))
    assert await world.reported(860, OK, refusal(500, "no")) == WARN
    world.restart()
    await world.reported(1200, reply({"data": {}}))
    assert await world.reported(1260, OK, OK) == WARN


async def test_a_silent_agent_evicts_nobody(world):
    await world.warned()
    world.reason = "not now"
    assert await world.reported(1200) == []
    world.reason = None
    assert await world.step(after=10) == await world.step(after=1000) == []


async def test_a_kernel_after_the_warning_keeps_the_pod_and_it_is_warned_again(world):
    await world.warned()
    assert await world.reported(1200, OK, idle_since=None) == [("PATCH", STORE)]
    assert await world.reported(1900, OK, OK, idle_since=1250) == WARN


@pytest.mark.parametrize("rule", [None, IdleRule(600)])
async def test_without_the_policy_nobody_is_warned_or_evicted(world, rule):
    world.rule = rule
    found = [("POST", EVENTS)] if rule is not None else []
    assert await world.reported(800) == []
    assert await world.reported(860, OK) == found
    assert await world.reported(99999) == await world.reported(999999) == []


async def test_a_disruption_budget_keeps_a_pod_and_that_is_said_once(world):
    await world.warned()
    found, full = reply(listed(idle_pod())), refusal(429, "disruption budget")
    assert await world.reported(1200, found, full, OK) == EVICT
    event = world.fake.asked[-1][3]
    assert (event["reason"], event["type"]) == ("IdleShareKept", "Normal")
    assert event["message"].endswith("the API server answered 429: disruption budget")
    assert await world.reported(1260) == []
    world.now += HELD_SECONDS
    assert await world.reported(1320, found, full) == EVICT[:2]
    world.now += HELD_SECONDS
    assert await world.reported(1380) == [], "the second pause is longer"
    world.now += HELD_SECONDS
    assert await world.reported(1440, found, OK, OK) == EVICT


async def test_a_replica_that_does_not_lead_asks_nothing(world):
    await world.warned()
    world.leading.leads = False
    assert await world.reported(1200) == []


@pytest.mark.parametrize("change", [{"annotations": {}}, {"creationTimestamp": time(500)}])
async def test_pods_that_are_not_ours_or_that_replaced_an_idle_one_are_not_idle(world, change):
    world.add(idle_pod(**change))
    assert await world.reported(800) == await world.reported(860) == []
    assert world.loop._idle.on_node("gpu-0") == []


WAITING = {"state": {"waiting": {"reason": "ContainerCreating"}}}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending", "containerStatuses": [WAITING]},
        {"phase": "Running"},
        {"phase": "Running", "containerStatuses": [container(), WAITING]},
        {"phase": "Running", "containerStatuses": [container(), container(500)]},
        {"phase": "Running", "containerStatuses": [{"state": {"terminated": {"finishedAt": time(500)}}}]},
        {"phase": "Running", "containerStatuses": [{"state": {"running": {"startedAt": "?"}}}]},
    ],
)
async def test_time_before_all_containers_started_is_not_idle(world, status):
    world.add(idle_pod(status=status))
    assert await world.reported(800) == await world.reported(860) == await world.reported(1099) == []
    assert world.loop._idle.on_node("gpu-0") == []


async def test_a_pod_whose_containers_started_long_ago_is_idle(world):
    status = {"phase": "Running", "containerStatuses": [container(90), container(500)]}
    world.add(idle_pod(status=status))
    await world.reported(1099)
    assert world.loop._idle.on_node("gpu-0") == []
    await world.reported(1100, reply({"data": {}}))
    assert [each.idle_since for each in world.loop._idle.on_node("gpu-0")] == [500]


async def test_a_warning_before_the_nodes_clock_was_set_back_does_not_count(world):
    await world.warned()
    world.restart()
    stored = reply({"data": {WARNINGS: '{"a": [5000, 5600]}'}})
    await world.reported(9000, stored, idle_since=200)
    assert await world.reported(9060, OK, OK, idle_since=200) == WARN


async def test_stored_warnings_of_another_form_count_as_none(world):
    await world.reported(1200, reply({"data": {WARNINGS: '{"a": 860}'}}))
    assert await world.reported(1260, OK, OK) == WARN


async def test_pods_that_may_not_be_evicted_do_not_keep_others_from_it(world):
    world.pods = tuple([f"p{number:02}" for number in range(8 * MAX_EVICTED)])
    for each in world.pods:
        world.add(idle_pod(each))
    warned = {each: [100, 860] for each in world.pods}
    await world.reported(1200, reply({"data": {WARNINGS: json.dumps(warned)}}))
    tried = []
    for number in range(8):
        few = world.pods[number * MAX_EVICTED :][:MAX_EVICTED]
        full = refusal(429, "disruption budget")
        answers = [answer for each in few for answer in (reply(listed(idle_pod(each))), full)]
        tried += evictions(await world.reported(1260 + number, *answers, *[OK for _ in few]))
    assert tried == list(world.pods)


async def test_a_namespace_with_many_idle_pods_does_not_keep_others_from_their_turn(world):
    names = [(f"p{number}", "team") for number in range(2 * MAX_EVICTED)] + [("last", "other")]
    found = report(1200, 100, [name for name, _ in names])
    found["status"]["usage"]["containers"][-1]["namespace"] = "other"
    for name, namespace in names:
        world.add(idle_pod(name, namespace=namespace))
    warned = {name: [100, 860] for name, _ in names}
    world.report(found)
    await world.step(reply({"data": {WARNINGS: json.dumps(warned)}}), after=10)
    found["status"]["usage"]["measured"] = time(1260)
    world.report(found)
    answers = [refusal(404, "gone")] * MAX_EVICTED
    assert ("GET", "/api/v1/namespaces/other/pods") in await world.step(*answers, after=10)


def evictions(asked):
    return [path.split("/")[-2] for _, path in asked if path.endswith("/eviction")]
