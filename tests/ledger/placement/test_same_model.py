"""Replicas of one owner that are kept to one GPU model."""

import pytest

from kube.names import GPU_PRODUCT_LABEL
from kube.scheduling import Constraints
from ledger.placement_request import Assumption, PlacementRequest, Unschedulable
from modes.facts import NodeFact
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, placed, read_pod


def of_model(name: str, product: str, mib: int = 81920, count: int = 1) -> NodeFact:
    node = gpu_node(name, count, mib)
    return gpu_node(name, count, mib, labels=node.labels | {GPU_PRODUCT_LABEL: product})


def same(slices: int = 4, number: int = 0, **changes: object) -> PlacementRequest:
    return eighths(slices, owner="train", same_model=True, reservation=f"r-{number}", **changes)


FLEET = (of_model("a", "A100"), of_model("h", "H100"), of_model("i", "H100"))


def test_the_first_pod_decides_the_model_and_is_bound_to_it():
    ledger = ledger_of(*FLEET, holders=(holder("p", "h", (0, 4), owner="train"),))
    answer = placed(ledger, same(8))
    assert (answer.node, answer.model, answer.memory_values) == ("i", "H100", ("81920",))


def test_while_the_model_is_full_the_pod_waits_for_it_though_another_is_free():
    holders = (holder("p", "h", (0, 8), owner="train"), holder("q", "i", (0, 8)))
    answer = placed(ledger_of(*FLEET, holders=holders), same())
    assert (answer.node, answer.indices, answer.model) == (None, (0,), "H100")


def test_a_pod_that_waits_decides_too():
    full = tuple(holder(f"on-{node.name}", node.name, (0, 8)) for node in FLEET)
    ledger = ledger_of(*FLEET, holders=full)
    assert placed(ledger, same()).model == "H100"
    ledger.remove_pod(("default", "on-a"))
    answer = placed(ledger, same(number=1))
    assert (answer.node, answer.model) == (None, "H100")
    waiting = holder("w", None, (0, 4), owner="train", model="A100", memory_values=("81920",))
    assert placed(ledger_of(*FLEET, holders=(waiting,)), same()).model == "A100"


@pytest.mark.parametrize("value", ["9" * 5000, "\u0663", "0", "081920", "many", ""])
def test_a_pod_that_waits_for_what_no_node_can_be_labelled_with_binds_nobody(value):
    full = tuple(holder(f"on-{node.name}", node.name, (0, 8)) for node in FLEET)
    waiting = holder("w", None, (0, 4), owner="train", memory_values=(value,))
    ledger = ledger_of(*FLEET, holders=(*full, waiting))
    assert placed(ledger, same()).model == "H100"
    ledger.remove_pod(waiting.key)
    assert waiting.key not in ledger.pending_keys()


def test_a_pod_that_demands_another_model_is_told_why_it_fits_nowhere():
    ledger = ledger_of(*FLEET, holders=(holder("p", "h", (0, 4), owner="train"),))
    wants = Constraints(node_selector={GPU_PRODUCT_LABEL: "A100"})
    expected = (
        "sameModel requires H100, as its owner's pods have: change the pod's demands, or delete those pods"
    )
    assert ledger.place(same(constraints=wants), 0.0) == Unschedulable(expected)
    assert ledger.place(same(16), 0.0) == Unschedulable(expected)


def test_nodes_that_tell_no_model_bind_a_pod_to_their_memory():
    ledger = ledger_of(
        gpu_node("a"), gpu_node("b", mib=40960), holders=(holder("p", "b", (0, 8), owner="train"),)
    )
    answer = placed(ledger, same(8))
    assert (answer.node, answer.model, answer.memory_values) == ("b", None, ("40960",))


def test_what_is_assumed_is_bound_to_the_model_as_well():
    waiting = holder("w", None, (0, 4), owner="train", model="H100", memory_values=("81920",))
    answer = placed(ledger_of(holders=(waiting,)), same(assume=Assumption(2, 81920)))
    assert (answer.degraded, answer.model) == (True, "H100")


@pytest.mark.parametrize(("values", "model"), [(["H100"], "H100"), (["H100", "A100"], None)])
def test_a_waiting_pod_is_read_with_the_one_model_that_it_is_bound_to(values, model):
    terms = [{"key": GPU_PRODUCT_LABEL, "operator": "In", "values": values}]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert read_pod({"nvidia.com/gpu-0": "1"}, spec={"affinity": affinity}).model == model
