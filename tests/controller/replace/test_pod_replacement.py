"""Which pods are deleted, and how: against an API server of a few lines, by a clock of the test's."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from controller.publish.metrics import ControllerMetrics
from controller.replace.pod_deletion import PodDeletion
from controller.replace.pod_replacement import REFUSED_SECONDS, PodReplacement
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes, pods
from modes.resource_names import ResourceNames
from policies.model.schema import Policy
from tests.cluster.fake_api import FakeApi, refusal, reply, talking_to
from tests.cluster.objects import listed, node, pod, read_object

NAMES = ResourceNames()
LABEL = "clearml-injector/fraction"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-1", "controller": True}
SAYS = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu-0."
POLICY = Policy.model_validate({"kind": "Policy", "name": "default", "replaceWaiting": {"after": "10s"}})
DELETED = "/api/v1/namespaces/team/pods/a"


def waiting(name="a", *, owners=(OWNER,), spec=None, status=None, slices=4, **metadata):
    """A pod of half a GPU that waits for GPU 0."""
    notes = {"injected": "default@1", "slices": str(slices), "gpu-index": "0"}
    made = pod(
        name,
        node=None,
        version="7",
        slices=slices,
        labels={LABEL: "0.500"},
        annotations={f"clearml-injector/{key}": value for key, value in notes.items()},
        ownerReferences=list(owners),
        **metadata,
    )
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": SAYS}
    made["spec"] |= spec or {}
    made["status"] = {"phase": "Pending", "conditions": [condition], **(status or {})}
    return made


class Leading:
    leads = True


class World:
    """A node of two GPUs of which the first is full, the loop, its clock and its API server."""

    def __init__(self, api, fake, *, policy=POLICY, reason_not_to_lead=None):
        self.now = 1000.0
        self.fake = fake
        self.state = LedgerStore(lambda: self.now)
        self.leading = Leading()
        deletion = PodDeletion(api, self.leading, ControllerMetrics(CollectorRegistry()))
        self.loop = PodReplacement(
            api,
            deletion,
            self.state,
            NAMES,
            {"default": policy}.get,
            reason_not_to_lead=lambda: reason_not_to_lead,
            clock=lambda: self.now,
        )
        self.add_node(node("gpu-0"))
        self.add(pod("holder", slices=8))

    def add_node(self, made):
        self.state.set_node(read_object(nodes(NAMES), made))

    def add(self, made):
        self.state.set_pod(read_object(pods(NAMES), made))

    async def after(self, seconds, *answers):
        """Let time pass, then take one step with these answers; return what was asked."""
        self.now += seconds
        self.fake.script, self.fake.asked = list(answers), []
        await self.loop.step()
        return [(method, path) for method, path, _, _ in self.fake.asked]


def in_world(check, **parts):
    async def run():
        fake = FakeApi()
        async with talking_to(fake) as api:
            await check(World(api, fake, **parts))

    asyncio.run(run())


READ, DELETE, EVENT = (
    ("GET", "/api/v1/namespaces/team/pods"),
    ("DELETE", DELETED),
    ("POST", "/api/v1/namespaces/team/events"),
)


def test_a_pod_that_fits_elsewhere_is_deleted_as_it_was_read_and_learns_why():
    async def check(world):
        world.add(waiting())
        assert await world.after(0) == []
        answers = [reply(listed(waiting())), reply({}), reply({}, "201 Created")]
        assert await world.after(10, *answers) == [READ, DELETE, EVENT]
        (_, _, query, _), (_, _, _, options), (_, _, _, event) = world.fake.asked
        assert query == {"fieldSelector": "metadata.name=a"}
        assert options["preconditions"] == {"uid": "a", "resourceVersion": "7"}
        assert event["reason"] == "WaitingPodReplaced"
        assert event["type"] == "Normal"
        assert event["message"] == (
            "waited 10 s for 4 slices of GPU 0 while GPU 1 of gpu-0 has room: "
            "deleted, so that ReplicaSet web creates another"
        )
        # It counts against no quota any more, and is not asked for again.
        assert ("team", "a") not in world.state.pods
        assert await world.after(100) == []

    in_world(check)


@pytest.mark.parametrize("policy", [None, POLICY.model_copy(update={"replace_waiting": None})])
def test_nothing_is_asked_where_the_policy_does_not_say_so(policy):
    async def check(world):
        world.add(waiting())
        assert await world.after(0) == await world.after(100) == []

    in_world(check, policy=policy)


def test_nothing_is_deleted_by_an_old_ledger():
    async def check(world):
        world.add(waiting())
        assert await world.after(0) == await world.after(100) == []

    in_world(check, reason_not_to_lead="watch of pods: silent")


def test_a_bare_pod_stays():
    async def check(world):
        world.add(waiting(owners=()))
        assert await world.after(0) == await world.after(100) == []

    in_world(check)


def test_a_pod_stays_while_nothing_else_has_room():
    async def check(world):
        world.add(waiting(slices=4))
        other = pod("other", slices=5)
        other["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu-1": "5"}}
        world.add(other)
        assert await world.after(0) == await world.after(100) == []
        world.state.remove_pod(("team", "other"))
        answers = [reply(listed(waiting())), reply({}), reply({})]
        assert await world.after(10, *answers) == [READ, DELETE, EVENT]

    in_world(check)


def test_a_pod_stays_that_fits_with_the_index_that_it_has():
    async def check(world):
        world.add(waiting())
        world.add_node(node("gpu-1"))
        assert await world.after(0) == []
        assert await world.after(100, reply(listed(waiting()))) == [READ]

    in_world(check)


def parted(*amounts, name="a"):
    """A pod whose containers wait for different slices of GPU 0 and the next ones."""
    made = waiting(name, slices=sum(amounts))
    made["metadata"]["annotations"]["clearml-injector/gpu-index"] = ",".join(map(str, range(len(amounts))))
    return asking(made, *amounts)


def asking(made, *amounts):
    """The same pod with a container for each GPU, from 0 on."""
    made["spec"]["containers"] = [
        {"name": f"c{index}", "resources": {"requests": {f"nvidia.com/gpu-{index}": str(slices)}}}
        for index, slices in enumerate(amounts)
    ]
    return made


def test_containers_on_different_gpus_are_replaced_where_others_have_room_for_each():
    async def check(world):
        world.add(parted(7, 4))
        world.add_node(node("gpu-1", gpus=4))
        world.add(asking(pod("taken", node="gpu-1"), 2, 5, 8, 8))
        assert await world.after(0) == await world.after(100) == []
        world.add(asking(pod("taken", node="gpu-1"), 8, 8, 1, 4))
        answers = [reply(listed(parted(7, 4))), reply({}), reply({})]
        assert await world.after(10, *answers) == [READ, DELETE, EVENT]
        assert (
            "7 slices of GPU 0 and 4 slices of GPU 1 while GPU 2, 3 of gpu-1 has room"
            in (world.fake.asked[-1][3]["message"])
        )

    in_world(check)


def test_containers_on_different_gpus_stay_where_each_fits_on_the_gpu_that_it_has():
    async def check(world):
        world.add(parted(7, 4))
        world.add_node(node("gpu-1"))
        assert await world.after(0) == []
        assert await world.after(100, reply(listed(parted(7, 4)))) == [READ]

    in_world(check)


@pytest.mark.parametrize(
    "stored",
    [
        waiting(deletionTimestamp="2026-11-21T10:00:00Z"),
        waiting(finalizers=["example.com/keep"]),
        waiting(spec={"schedulingGates": [{"name": "later"}]}),
        waiting(spec={"nodeName": "gpu-0"}),
        waiting(status={"nominatedNodeName": "gpu-0"}),
        waiting(status={"phase": "Running"}),
        waiting(uid="another"),
        waiting(spec={"nodeSelector": {"disk": "fast"}}),
    ],
    ids=["terminating", "finalizers", "gates", "bound", "nominated", "running", "another", "no such node"],
)
def test_a_pod_that_turns_out_otherwise_when_it_is_read_stays(stored):
    async def check(world):
        world.add(waiting())
        assert await world.after(0) == []
        assert await world.after(10, reply(listed(stored))) == [READ]
        assert await world.after(10, reply(listed())) == [READ]

    in_world(check)


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_changed_after_it_was_read_stays_known(status):
    async def check(world):
        world.add(waiting())
        await world.after(0)
        assert await world.after(10, reply(listed(waiting())), refusal(status)) == [READ, DELETE]
        assert ("team", "a") in world.state.pods

    in_world(check)


def test_one_that_no_longer_leads_deletes_nothing():
    async def check(world):
        world.add(waiting())
        await world.after(0)

        async def lose(writer):
            world.leading.leads = False
            await reply(listed(waiting()))(writer)

        assert await world.after(10, lose) == [READ]

    in_world(check)


def test_a_refusal_holds_everything_for_a_while():
    async def check(world):
        world.add(waiting())
        await world.after(0)
        assert await world.after(10, reply(listed(waiting())), refusal(403)) == [READ, DELETE]
        assert await world.after(REFUSED_SECONDS - 1) == []
        assert await world.after(2, reply(listed(waiting())), refusal(403)) == [READ, DELETE]

    in_world(check)


def test_one_step_replaces_one_pod_and_the_next_waits_for_its_successor():
    async def check(world):
        other = {**OWNER, "uid": "rs-2"}
        for name in ("a", "b"):
            world.add(waiting(name, namespace="team", owners=[OWNER if name == "a" else other]))
        await world.after(0)
        answers = [reply(listed(waiting())), reply({}), reply({})]
        assert await world.after(10, *answers) == [READ, DELETE, EVENT]
        assert await world.after(1) == []

    in_world(check)
