"""Feature discovery takes labels away while it starts again: pods wait meanwhile, and are not denied."""

import pytest

from controller.watch.kept_labels import KEPT_SECONDS
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenNode
from kube.names import GPU_MEMORY_LABEL
from ledger.from_kubernetes import node_from_object
from ledger.placement_request import Placement, Unschedulable
from modes.fraction import Fraction
from modes.resource_names import ResourceNames
from tests.cluster.objects import node
from tests.controller.watch.test_ledger_store import Clock
from tests.ledger.cluster import request_of

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
