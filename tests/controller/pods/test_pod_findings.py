"""What a change of a pod is worth telling."""

import asyncio
import dataclasses

import msgspec
import pytest

from controller.pods.pod_findings import findings, waiting_for_card, waiting_message
from controller.pods.room import RoomFinder
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import InjectedPod, SeenNode, SeenPod, pods
from kube.dra import CLAIM_NAME, DRIVER
from ledger.claim_room import ClaimAsk, ClaimRoom
from ledger.from_kubernetes import node_from_object
from ledger.why_claim import ShareClaim
from modes.facts import PodFact
from modes.resource_names import ResourceNames
from tests.cluster.objects import node, pod, read_object

INJECTED = InjectedPod(uid="u", asked="0.500", injected="default@1", slices="4", gpu_index="1")


def seen(injected=INJECTED, **fact):
    return SeenPod(PodFact(**{"namespace": "team", "name": "a", "takes": ((1, 4),), **fact}), injected)


def changed(**fields):
    return msgspec.structs.replace(INJECTED, **fields)


def unscheduled(said, reason="Unschedulable", **metadata):
    """A labelled pod of which the scheduler says something."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": said}
    made = pod("a", node=None, labels={"clearml-injector/fraction": "0.500"}, **metadata)
    return made | {"status": {"phase": "Pending", "conditions": [condition]}}


def events(pod):
    return [(finding.reason, finding.message) for finding in findings(pod)]


def test_a_pod_as_it_should_be_is_no_news():
    assert events(seen()) == []
    assert events(seen(injected=None)) == []


@pytest.mark.parametrize(("said", "is_drift"), [("1,0,1", False), ("0,1", False), ("0", True), ("0,2", True)])
def test_containers_on_different_gpus_are_as_they_should_be_where_each_names_its_own(said, is_drift):
    apart = changed(slices="5", gpu_index=said)
    assert bool(events(seen(apart, takes=((0, 4), (1, 1))))) is is_drift


def test_a_pod_that_the_scheduler_cannot_place_waits():
    waiting = changed(lacks_slices=True)
    assert events(seen(waiting)) == [("WaitingForSlices", "")]
    assert events(seen(waiting, node="gpu-0")) == []


def test_a_pod_whose_claim_no_node_can_give_waits_for_a_card():
    waiting = changed(has_claim=True, slices=None, gpu_index=None, lacks_cards=True)
    assert events(seen(waiting, takes=())) == [("WaitingForCard", "")]
    assert events(seen(waiting, takes=(), node="gpu-0")) == []


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("0/3 nodes are available: 1 node(s) were unschedulable, 2 cannot allocate all claims.", True),
        ("0/3 nodes are available: 3 Insufficient cpu.", False),
    ],
)
def test_whether_cards_are_lacking_is_what_the_scheduler_says_of_claims(said, lacks):
    found = unscheduled(said)
    assert not read_object(pods(ResourceNames()), found).injected.lacks_cards
    found["spec"]["resourceClaims"] = [{"name": CLAIM_NAME}]
    assert read_object(pods(ResourceNames()), found).injected.lacks_cards is lacks


HALF = ClaimAsk(40960, card_mib=81920)
SHARE = ShareClaim(state="waiting", driver=DRIVER, asked=HALF)


def room(**more):
    return ClaimRoom(**{"cards": 2, "usable": 2, "most_free_mib": 30720, "most_free_of": 81920, **more})


def test_who_waits_for_a_card_is_told_the_amount_and_what_is_free():
    found = dataclasses.replace(SHARE, room=room(most_free_on="gpu-0"))
    assert waiting_for_card(found) == (
        f"needs a claim of 40960 MiB of a card with 81920 MiB, offered by driver {DRIVER}. Cards with 81920"
        " MiB: 2; none has enough room, the most free is 30720 of 81920 MiB on gpu-0. It starts when pods"
        " that hold parts of these cards end."
    )


@pytest.mark.parametrize(
    "change",
    [{"state": "allocated"}, {"room": None}, {"room": room(with_room=1, nodes_with_room=1)}, {"asked": None}],
)
def test_nothing_is_said_of_cards_that_are_unknown_or_have_room(change):
    assert waiting_for_card(dataclasses.replace(dataclasses.replace(SHARE, room=room()), **change)) is None


@pytest.mark.parametrize(
    ("drifted", "message"),
    [
        ({"injected": None}, "clearml-injector/fraction 0.500 has no effect: the pod was never injected"),
        ({"slices": "2"}, "the annotation says 2 slices, the pod's limits say 4"),
        ({"gpu_index": "0"}, "the annotation says GPU 0, the pod's limits say 1"),
    ],
)
def test_drift_is_reported(drifted, message):
    assert events(seen(changed(**drifted))) == [("FractionDrift", message)]


def test_a_pod_that_is_over_is_no_news():
    assert events(seen(changed(injected=None), is_over=True)) == []


def cluster(*holders, nodes=("gpu-0", "gpu-1", "gpu-2", "gpu-3"), **of_nodes):
    """Nodes of two GPUs with pods of (node, index, slices)."""
    state = LedgerStore(lambda: 0.0)
    for name in nodes:
        found = node_from_object(node(name), ResourceNames())
        state.set_node(SeenNode(msgspec.structs.replace(found, **of_nodes), name))
    for number, (name, index, slices) in enumerate(holders):
        state.set_pod(seen(None, name=f"holder-{number}", node=name, takes=((index, slices),)))
    return state


def test_a_pod_that_only_an_agent_limits_is_compared_with_nodes_with_a_running_agent_only():
    state, fact = cluster(("gpu-0", 1, 5), ("gpu-0", 0, 5)), seen().fact
    state.set_agent(AgentReport("gpu-0", (), is_registered=True))
    free = asyncio.run(RoomFinder(state).nodes(fact, by_agent=True))
    assert waiting_message(fact, free, ResourceNames()) == (
        "needs 4 slices of GPU 1; no node with a running agent has room; free now: gpu-0: 3; it"
        " starts when pods there end; a share of 3 slices would start now on gpu-0"
    )


@pytest.mark.parametrize("pods", [[("gpu-0", 1, 5)], [("gpu-0", 0, 5)]])
def test_a_waiting_pod_learns_what_did_not_count_when_its_gpu_was_chosen(pods):
    fact = seen().fact
    free = asyncio.run(RoomFinder(cluster(*pods)).nodes(fact))
    said = waiting_message(fact, free, ResourceNames(), not_considered="volumes")
    assert said.startswith(
        "its GPU was chosen without its volumes: if that excludes nodes, add a nodeSelector"
    )


ANNOTATIONS = {"clearml-injector/injected": "default@1", "clearml-injector/slices": "4"}


@pytest.mark.parametrize(
    ("label", "annotations", "expected"),
    [
        ("0.500", ANNOTATIONS, True),
        ("0.500", {**ANNOTATIONS, "clearml-injector/memory-mib": "40960"}, False),
        ("2.000", ANNOTATIONS, False),
        ("0.500", {}, False),
    ],
)
def test_an_injected_share_without_mib_is_limited_by_an_agent(label, annotations, expected):
    made = pod("a", node=None, labels={"clearml-injector/fraction": label}, annotations=annotations)
    assert read_object(pods(ResourceNames()), made).is_limited_by_agent == expected


def test_a_pod_that_waits_for_a_mig_instance_is_limited_by_no_agent():
    resource = "nvidia.com/mig-3g.40gb"
    made = unscheduled(f"0/1 nodes: 1 Insufficient {resource}.", annotations=ANNOTATIONS)
    made["spec"]["containers"][0]["resources"] = {each: {resource: "1"} for each in ("limits", "requests")}
    found = read_object(pods(ResourceNames()), made)
    assert [each.reason for each in findings(found)] == ["WaitingForSlices"]
    assert not found.is_limited_by_agent


@pytest.mark.parametrize(
    "owner",
    [
        {"kind": "ReplicaSet", "name": "web", "uid": "u"},
        {"kind": "ReplicaSet", "name": "n" * 254, "uid": "u", "controller": True},
        {"kind": "a\nb", "name": "web", "uid": "u", "controller": True},
        {"kind": "ReplicaSet", "name": "wéb", "uid": "u", "controller": True},
    ],
)
def test_an_owner_that_is_no_controllers_is_not_kept(owner):
    made = unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/gpu-1.", ownerReferences=[owner])
    found = read_object(pods(ResourceNames()), made)
    assert found.injected.lacks_slices
    assert found.injected.owner is None


def test_a_pod_that_waits_for_something_else_gets_no_event():
    fact = seen(memory_values=("81920",)).fact
    held = [("gpu-0", 1, 8)]
    # Where a node has room, the scheduler has another reason; else none could take it at all.
    assert message(cluster(*held), fact) is None
    assert message(cluster(*held, nodes=["gpu-0"], usable=False), fact) is None
    assert message(cluster(*held, nodes=["gpu-0"], cordoned=frozenset({1})), fact) is None
    assert message(cluster(*held, nodes=["gpu-0"]), seen(memory_values=("40960",)).fact) is None
    assert message(cluster(*held, nodes=["gpu-0"]), fact) is not None


@pytest.mark.parametrize(
    ("reason", "said", "waits"),
    [
        (
            "Unschedulable",
            "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu-1.",
            True,
        ),
        ("Unschedulable", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", True),
        ("Unschedulable", "0/1 nodes are available: 1 node(s) were unschedulable.", False),
        ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", False),
        ("SchedulerError", "Insufficient nvidia.com/gpu-1", False),
        ("Unschedulable", None, False),
    ],
)
def test_only_what_the_scheduler_says_of_slices_is_waiting_for_slices(reason, said, waits):
    found = read_object(pods(ResourceNames()), unscheduled(said, reason))
    assert found.injected.lacks_slices is waits


def message(state, fact):
    return waiting_message(fact, asyncio.run(RoomFinder(state).nodes(fact)), ResourceNames())
