"""What pods accept steers those that would go anywhere, and is forgotten in bounds."""

from __future__ import annotations

from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.ledger import Ledger
from ledger.placement.node_class_prices import MAX_LOADS, NodeClassPrices
from ledger.placement.packing import UNIT
from ledger.placement_request import Placement
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of

NAMES_T4 = Constraints({"product": "T4"})


def two_classes(**changes: object) -> Ledger:
    def kind(name: str) -> dict[str, str]:
        return {"nvidia.com/gpu.memory": "16384", "product": name}

    facts = [gpu_node(f"a{i}", 4, labels=kind("T4"), **changes) for i in range(4)]
    facts += [gpu_node(f"b{i}", 4, labels=kind("P100"), **changes) for i in range(4)]
    return ledger_of(*facts)


def arrive(ledger: Ledger, slices: int, count: int, **changes: object) -> list[str]:
    """Nodes that pods which go again at once are placed on."""
    nodes = []
    for _ in range(count):
        answer = ledger.place(eighths(slices, reservation="r", **changes), 0.0)
        assert isinstance(answer, Placement)
        nodes.append(answer.node or "")
        ledger.release("r")
    return nodes


def test_pods_that_would_go_anywhere_leave_the_class_that_others_name_to_those() -> None:
    ledger = two_classes()
    assert arrive(ledger, 4, 1) == ["a0"]
    arrive(ledger, 4, 60, constraints=NAMES_T4)
    assert arrive(ledger, 4, 1) == ["b0"]
    assert arrive(ledger, 4, 1, constraints=NAMES_T4) == ["a0"]


def test_where_nothing_is_named_no_class_costs_anything() -> None:
    ledger = two_classes()
    arrive(ledger, 4, 60)
    assert [node_class.price for node_class in ledger._node_index.classes.values()] == [0]


def test_a_small_class_that_nobody_has_named_yet_is_not_the_first_to_be_filled() -> None:
    ledger = two_classes()
    ledger.set_node(gpu_node("c0", 1, labels={"nvidia.com/gpu.memory": "16384", "product": "G3"}))
    arrive(ledger, 4, 40, constraints=NAMES_T4)
    arrive(ledger, 4, 1, constraints=Constraints({"product": "P100"}))
    arrive(ledger, 4, 40)
    prices = {dict(c.sample.labels)["product"]: c.price for c in ledger._node_index.classes.values()}
    assert prices["G3"] > prices["P100"]


def test_a_class_that_is_named_costs_the_less_the_more_of_it_is_free() -> None:
    ledger = two_classes()
    arrive(ledger, 4, 100)
    arrive(ledger, 4, 50, constraints=NAMES_T4)
    empty = max(node_class.price for node_class in ledger._node_index.classes.values())
    for i in range(4):
        ledger.set_pod(holder(f"p{i}", f"a{i}", (0, 8), (1, 8), (2, 8)))
    arrive(ledger, 4, 50)
    assert max(node_class.price for node_class in ledger._node_index.classes.values()) > empty > 0


def test_the_few_nodes_that_the_largest_pods_fit_on_are_left_to_them() -> None:
    small = [gpu_node(f"s{i}", 8, cpu_milli=96_000) for i in range(6)]
    large = gpu_node("large", 8, cpu_milli=128_000)
    ledger = ledger_of(*small, large, holders=(holder("p", "large", (0, 4)), holder("q", "s0", (0, 3))))
    assert arrive(ledger, 4, 1, cpu_milli=1000) == ["large"]
    arrive(ledger, 64, 60, cpu_milli=120_000)
    assert arrive(ledger, 4, 1, cpu_milli=1000) == ["s0"]


def test_what_was_learnt_of_a_class_outlives_its_being_split_by_a_label_that_pods_name() -> None:
    ledger = two_classes()
    arrive(ledger, 4, 60, constraints=NAMES_T4)
    zone = Constraints({"nvidia.com/gpu.memory": "16384"})
    arrive(ledger, 4, 20, constraints=zone)
    prices = {dict(c.sample.labels)["product"]: c.price for c in ledger._node_index.classes.values()}
    assert prices["T4"] > 2 * UNIT > prices["P100"] == 0


def test_sets_of_classes_are_bounded_and_room_is_made_for_new_ones() -> None:
    labels = {"nvidia.com/gpu.memory": "16384"}
    ledger = ledger_of(*(gpu_node(f"n{i}", 1, labels=labels | {"kind": str(i)}) for i in range(10)))
    for number in range(1, MAX_LOADS + 9):
        some = tuple([str(i) for i in range(10) if number >> i & 1])
        term = NodeSelectorTerm((Requirement("kind", "In", some),))
        arrive(ledger, 1, 1, constraints=Constraints(required_terms=(term,)))
    prices = ledger._class_prices[8]
    assert isinstance(prices, NodeClassPrices)
    assert len(prices._named) <= MAX_LOADS
    arrive(ledger, 8, 400)
    assert max(load.slices for load in prices._named.values()) > 400


def test_an_exact_hole_is_filled_before_an_idle_gpu_is_begun_on_a_fuller_node() -> None:
    fuller = holder("f", "a", *((index, 8) for index in range(7)))
    ledger = ledger_of(gpu_node("a", 8), gpu_node("b", 8), holders=(fuller, holder("h", "b", (0, 4))))
    assert arrive(ledger, 4, 1) == ["b"]
