"""Which gates the leader removes, and when: against an API server of a few lines, by the test's clock."""

import pytest

from controller.quota_gates.gate_removal import GateRemoval
from controller.quota_gates.loop import (
    KEEP_SECONDS,
    MAX_AT_ONCE,
    MAX_STUCK,
    MOST_RETRY_SECONDS,
    REFUSED_SECONDS,
    SETTLE_SECONDS,
    QuotaGateLoop,
)
from kube.names import QUOTA_GATE
from ledger.placement_request import Quota
from tests.cluster.fake_api import refusal, reply
from tests.cluster.objects import listed, pod
from tests.controller.world import World

TEAM = Quota("namespace", "team", max_pods=1)
NOTES = {"clearml-injector/injected": "default@1"}
OURS, OTHERS = {"name": QUOTA_GATE}, {"name": "example.com/wait"}
PATCH = "PATCH", "/api/v1/namespaces/team/pods/a"
OTHER_PATCH = "PATCH", "/api/v1/namespaces/team/pods/b"
EVENT = "POST", "/api/v1/namespaces/team/events"
READ = "GET", "/api/v1/namespaces/team/pods"
DONE = reply({}), reply({}, "201 Created")


def waiting(name="a", *gates, second=0, **changes):
    """A pod of half a GPU that waits for its quota."""
    labels = changes.pop("labels", {"clearml-injector/fraction": "0.500"})
    notes = changes.pop("annotations", NOTES)
    created = f"2026-01-01T00:00:{second:02}Z"
    made = pod(
        name, node=None, slices=4, labels=labels, annotations=notes, creationTimestamp=created, **changes
    )
    made["spec"]["schedulingGates"] = list(gates) or [OURS]
    return made


def let_go(name="a", **changes):
    made = waiting(name, **changes)
    del made["spec"]["schedulingGates"]
    return made


class Policies:
    """The policies of these tests: one quota of one namespace."""

    def __init__(self):
        self.digest = "1"
        self.quotas = (TEAM,)

    def quotas_of(self, namespace, _queues):
        return self.quotas if namespace == "team" else ()


class GateWorld(World):
    """The loop after a new leader has settled."""

    def start(self):
        self.policies = Policies()
        self.loop = QuotaGateLoop(
            GateRemoval(self.api, self.events, self.metrics),
            self.state,
            self.leading,
            self.policies,
            reason_not_to_lead=lambda: self.reason,
            clock=lambda: self.now,
        )
        self.state.ledger.line.state = "open"

    def end(self, name):
        self.state.remove_pod(("team", name))

    @property
    def used(self):
        return self.state.ledger.used_of(TEAM).pods

    @property
    def in_line(self):
        return len(self.state.ledger.line)


@pytest.fixture
async def world():
    async with GateWorld.running() as world:
        yield world


async def test_the_gate_of_the_first_pod_is_removed_if_it_is_still_this_pods_and_it_is_told(world):
    world.add(waiting("b", second=1), waiting())
    counted = []

    async def removed(writer):
        counted.append((world.used, world.in_line))
        await reply({})(writer)

    assert await world.step(removed, DONE[1]) == [PATCH, EVENT]
    assert counted == [(1, 1)], "it counts before the request is sent"
    (_, _, _, patch), (_, _, _, event) = world.fake.asked
    assert patch == [
        {"op": "test", "path": "/metadata/uid", "value": "a"},
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": QUOTA_GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    assert (event["reason"], event["type"]) == ("QuotaHasRoom", "Normal")
    assert (world.used, world.in_line) == (1, 1)
    world.add(let_go())
    assert (world.used, world.state.lifted) == (1, {})
    assert await world.step() == []
    world.end("a")
    assert await world.step(*DONE) == [OTHER_PATCH, EVENT]


async def test_an_event_of_the_watch_that_comes_late_lets_no_pod_wait_again(world):
    world.add(waiting(), waiting("b", second=1))
    await world.step(*DONE)
    world.add(waiting(resourceVersion="late"))
    assert (world.used, world.in_line) == (1, 1)
    assert await world.step() == []


async def test_another_pod_of_the_same_name_waits_like_any_other(world):
    world.add(waiting())
    await world.step(*DONE)
    world.add(waiting(uid="second"))
    assert (world.used, world.in_line) == (0, 1)


async def test_after_a_request_without_an_answer_the_pod_counts_and_the_request_is_repeated_first(world):
    world.add(waiting(), waiting("b", second=1))
    assert await world.step(refusal(500, "InternalError")) == [PATCH]
    assert (world.used, world.in_line) == (1, 1)
    assert await world.step() == [], "not at once"
    changed = refusal(422, "Invalid"), reply(listed(let_go()))
    assert await world.step(*changed, after=1) == [PATCH, READ]
    assert (world.used, world.in_line) == (1, 1)
    world.add(let_go())
    assert await world.step(after=1) == []


async def test_a_gate_that_moved_is_removed_where_it_is_now(world):
    world.add(waiting())
    answers = refusal(422, "Invalid"), reply(listed(waiting("a", OTHERS, OURS)))
    assert await world.step(*answers) == [PATCH, READ]
    assert (world.used, world.in_line) == (0, 1)
    world.add(waiting("a", OTHERS, OURS))
    assert await world.step(after=1) == [], "other gates go first"
    world.add(waiting())
    assert await world.step(*DONE, after=1) == [PATCH, EVENT]


async def test_a_pod_that_is_gone_makes_room_when_the_watch_says_so(world):
    world.add(waiting(), waiting("b", second=1))
    answers = refusal(404, "NotFound"), reply(listed())
    assert await world.step(*answers) == [PATCH, READ]
    assert (world.used, world.in_line) == (1, 1)
    world.end("a")
    assert await world.step(*DONE) == [OTHER_PATCH, EVENT]


async def test_a_rejection_leaves_the_pod_in_line_and_is_not_repeated_at_once(world):
    world.add(waiting())
    assert await world.step(refusal(403, "Forbidden")) == [PATCH]
    assert (world.used, world.in_line) == (0, 1)
    assert await world.step(after=1) == []
    assert await world.step(*DONE, after=REFUSED_SECONDS) == [PATCH, EVENT]


async def test_a_full_namespace_keeps_room_in_a_shared_quota_only_for_some_time(world):
    quotas = TEAM, Quota("queue", "shared", max_pods=2)
    world.policies.quotas_of = lambda namespace, _: quotas if namespace == "team" else quotas[1:]
    labels = {"clearml-injector/fraction": "0.500", "clearml-agent-queue-name": "shared"}
    world.add(let_go("runs", labels=labels), waiting("first", labels=labels))
    world.add(waiting("other", second=1, namespace="blue", labels=labels))
    assert await world.step() == await world.step() == []
    assert await world.step(after=KEEP_SECONDS - 1) == []
    blue = ("PATCH", "/api/v1/namespaces/blue/pods/other")
    assert (await world.step(*DONE, after=1))[0] == blue


@pytest.mark.parametrize("status", [403, 400, 500, 503])
async def test_a_pod_that_the_api_server_does_not_let_go_stops_no_other_namespace(world, status):
    world.state.ledger.line.state = "settling"
    world.add(waiting(), waiting("b", second=1, namespace="blue"))
    asked = await world.step(refusal(status, "no"), *DONE)
    asked += await world.step(*DONE, after=0.25)
    assert asked[:2] == [PATCH, ("PATCH", "/api/v1/namespaces/blue/pods/b")]
    assert world.state.ledger.line.state == "open"


async def test_a_request_that_is_rejected_as_if_the_pod_had_changed_is_not_repeated_at_once(world):
    world.add(waiting())
    assert await world.step(refusal(409, "Conflict"), reply(listed(waiting()))) == [PATCH, READ]
    assert await world.step(after=1) == []
    assert await world.step(*DONE, after=REFUSED_SECONDS) == [PATCH, EVENT]


async def test_one_namespace_whose_gates_cannot_be_removed_stops_no_other(world):
    world.policies.quotas = ()
    team = [waiting(f"p-{n:02}") for n in range(3 * MAX_STUCK)]
    world.add(*team, waiting("last", second=9, namespace="blue"))
    asked = await world.step(*[refusal(403, "Forbidden")] * MAX_STUCK, *DONE)
    assert len([path for _, path in asked if "/team/" in path]) == MAX_STUCK
    assert ("PATCH", "/api/v1/namespaces/blue/pods/last") in asked


async def test_while_no_request_has_an_answer_a_bounded_number_is_tried_ever_more_rarely(world):
    world.policies.quotas = ()
    world.add(*(waiting(f"p-{n}") for n in range(3 * MAX_STUCK)))
    asked = []
    for _ in range(250):
        asked += await world.step(*[refusal(500, "InternalError")] * 2, after=1)
    assert len(set(asked)) == MAX_STUCK
    assert len(asked) < 20 * MAX_STUCK
    ends = await world.step(*DONE * (4 * MAX_STUCK), after=MOST_RETRY_SECONDS)
    ends += await world.step(*DONE * (4 * MAX_STUCK), after=1)
    assert len([path for method, path in ends if method == "PATCH"]) == 3 * MAX_STUCK


async def test_too_many_requests_are_answered_by_a_pause_of_all(world):
    world.add(waiting(), waiting("b", second=1, namespace="blue"))
    assert await world.step(refusal(429, "TooManyRequests")) == [PATCH]
    assert (world.used, world.in_line) == (0, 2)
    assert await world.step(after=1) == []


@pytest.mark.parametrize(
    "changes",
    [{"labels": {}}, {"annotations": {}}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}],
    ids=["unlabelled", "not injected", "being deleted"],
)
async def test_gates_on_pods_that_are_not_ours_and_on_pods_that_end_stay(world, changes):
    world.add(waiting(**changes))
    assert await world.step() == []


async def test_nothing_is_removed_while_the_ledger_may_be_outdated_or_another_replica_leads(world):
    world.add(waiting())
    world.reason = "watch of pods: silent"
    assert await world.step() == []
    world.reason, world.leading.leads = None, False
    assert await world.step() == []
    assert (world.used, world.in_line) == (0, 1)


async def test_a_new_leader_waits_and_forgets_requests_of_its_earlier_term(world):
    world.state.ledger.line.state = "settling"
    world.add(waiting())
    await world.step(refusal(500, "InternalError"))
    world.leading.leads = False
    await world.loop.run()
    assert world.state.ledger.line.state == "settling"
    assert (world.used, world.in_line) == (0, 1), "what the watch says"
    world.leading.leads = True
    assert await world.step(after=SETTLE_SECONDS - 0.1) == []
    assert await world.step(*DONE, after=0.1) == [PATCH, EVENT]
    assert world.state.ledger.line.state == "open"


async def test_a_changed_policy_is_applied_without_a_change_of_pods(world):
    world.add(waiting(), waiting("b", second=1))
    await world.step(*DONE)
    world.policies.digest, world.policies.quotas = "2", ()
    assert await world.step(*DONE) == [OTHER_PATCH, EVENT]


async def test_a_step_lets_a_bounded_number_go_and_the_next_one_continues(world):
    world.policies.quotas = ()
    world.add(*(waiting(f"p-{n}") for n in range(MAX_AT_ONCE + 1)))
    assert len(await world.step(*DONE * MAX_AT_ONCE)) == 2 * MAX_AT_ONCE
    assert len(await world.step(*DONE)) == 2
