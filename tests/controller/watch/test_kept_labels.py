"""What passes: labels that feature discovery takes away while it starts again, and names of late agents."""

import pytest

from controller.watch.gpu_node import AgentReport
from controller.watch.kept_labels import KEPT_SECONDS
from controller.watch.ledger_store import FORGET_SECONDS, LATE_SECONDS, LedgerStore
from controller.watch.resources import SeenNode
from kube.names import GPU_MEMORY_LABEL
from kube.scheduling import Constraints
from ledger.from_kubernetes import node_from_object
from ledger.placement_request import Placement, Unschedulable
from modes.fraction import Fraction
from modes.resource_names import ResourceNames
from tests.cluster.objects import node
from tests.controller.watch.test_ledger_store import Clock
from tests.ledger.cluster import gpu_node, request_of

HALF = request_of(Fraction(4, 8), namespace="team")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def state(clock):
    """A store with a node that has all labels."""
    state = LedgerStore(clock)
    state.listed("nodes")
    state.listed("pods")
    state.set_node(seen())
    return state


def seen(*without, uid="one"):
    made = node("n", gpus=1)
    for label in without:
        del made["metadata"]["labels"][label]
    return SeenNode(node_from_object(made, ResourceNames()), uid)


def test_a_label_that_went_away_holds_for_some_minutes(state, clock):
    clock.now = 5 * KEPT_SECONDS
    state.set_node(seen(GPU_MEMORY_LABEL))
    assert isinstance(state.place(HALF), Placement)
    clock.now += KEPT_SECONDS
    state.set_node(seen(GPU_MEMORY_LABEL))
    assert isinstance(state.place(HALF), Placement)
    clock.now += 1
    state.set_node(seen(GPU_MEMORY_LABEL))
    assert isinstance(state.place(HALF), Unschedulable)
    state.set_node(seen())
    assert isinstance(state.place(HALF), Placement)


def test_another_node_of_the_same_name_has_its_own_labels(state):
    state.set_node(seen(GPU_MEMORY_LABEL, uid="another"))
    assert isinstance(state.place(HALF), Unschedulable)
    state.set_node(seen())
    state.remove_node("n")
    state.set_node(seen(GPU_MEMORY_LABEL))
    assert isinstance(state.place(HALF), Unschedulable)


CARDS = ((0, 81920), (1, 81920))
BY_INDEX = {"gpus": ((0, 8), (1, 8)), "slices_per_gpu": 8}
POOL = {"gpus": (), "slices_per_gpu": 0, "pool": "nvidia.com/gpu", "pooled": 16, "pooled_gpus": 2}
OF_POOL = request_of(Fraction(4, 8), mode="pooled", pool="nvidia.com/gpu")


@pytest.mark.parametrize(
    ("before", "after", "asked"),
    [(BY_INDEX, POOL, OF_POOL), (POOL, BY_INDEX, HALF)],
    ids=["per-gpu to pooled", "pooled to per-gpu"],
)
def test_pods_under_a_changed_policy_wait_some_minutes_for_the_agents_names(clock, before, after, asked):
    """Agents read it some seconds after the webhook, and offer nothing while they start again."""
    state = LedgerStore(clock)
    state.set_agent(AgentReport("n", CARDS, has_healthy_cards=True, is_registered=True))
    clock.now = 5 * LATE_SECONDS
    for fields in (before, {"gpus": ((0, 0), (1, 0)) if before is BY_INDEX else ()}):
        state.set_node(SeenNode(gpu_node("n", **fields), "one"))
        assert state.place(asked).node is None
        clock.now += LATE_SECONDS / 2 - 1
    state.set_node(SeenNode(gpu_node("n", **after), "one"))
    assert state.place(asked).node == "n"
    state.set_node(SeenNode(gpu_node("n", **before), "one"))
    assert state.place(asked).node is None
    clock.now += LATE_SECONDS
    assert isinstance(state.place(asked), Unschedulable)


def test_a_pod_for_nodes_that_stay_with_other_names_is_denied_though_others_are_placed(clock):
    state = LedgerStore(clock)
    for name, fields in (("a", BY_INDEX), ("b", POOL)):
        state.set_agent(AgentReport(name, CARDS, has_healthy_cards=True, is_registered=True))
        labels = {GPU_MEMORY_LABEL: "81920", "pool": name}
        state.set_node(SeenNode(gpu_node(name, **fields, labels=labels), name))

    def placed(pool):
        asked = request_of(Fraction(1, 8), constraints=Constraints({"pool": pool}))
        return isinstance(state.place(asked), Placement)

    found = []
    for _ in range(3):
        found.append((placed("a"), placed("b")))
        clock.now += 0.6 * LATE_SECONDS
    assert found == [(True, True), (True, True), (True, False)]
    clock.now += FORGET_SECONDS
    assert placed("b")


def test_names_that_no_agent_can_offer_are_not_waited_for(clock):
    state = LedgerStore(clock)
    state.set_node(SeenNode(gpu_node("n", **BY_INDEX), "one"))
    assert isinstance(state.place(OF_POOL), Unschedulable)
