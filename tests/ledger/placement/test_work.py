"""What a pod's author may write costs a decision few comparisons, however many nodes there are."""

from __future__ import annotations

import pytest

import kube.matching
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement, Taint, Toleration
from ledger.ledger import Ledger
from ledger.placement.label_index import LEAST_WORK, WORK_PER_NODE
from ledger.placement_request import Placement, PlacementRequest, Unschedulable
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of
from tests.ledger.snapshot import books

NODES = 1000
MOST_COMPARISONS = 10_000
"""Of a pod with 100 terms: a tenth of what asking each node takes."""


def each_term(key: str, operator: str, *values: str) -> Constraints:
    """100 terms with one expression each."""
    terms = [NodeSelectorTerm((Requirement(key, operator, (value,)),)) for value in values]
    return Constraints(required_terms=tuple(terms))


def one_term(key: str, operator: str, *values: tuple[str, ...]) -> Constraints:
    """One term with 100 expressions."""
    asked = tuple([Requirement(key, operator, some) for some in values])
    return Constraints(required_terms=(NodeSelectorTerm(asked),))


def named(operator: str, *values: tuple[str, ...]) -> Constraints:
    asked = tuple([Requirement("metadata.name", operator, some) for some in values])
    return Constraints(required_terms=(NodeSelectorTerm(None, asked),))


HUNDRED = [str(number) for number in range(100)]
TENS = [tuple(f"{number}-{each}" for each in range(10)) for number in range(100)]
DEAR = {
    "the group of a bound": each_term("group", "Gt", *HUNDRED),
    "ranks that there are none of": each_term("rank", "In", *[f"x{each}" for each in HUNDRED]),
    "all but ranks that there are none of": one_term("rank", "NotIn", *TENS),
    "all but nodes that there are none of": named("NotIn", *TENS),
    "a label that few have": each_term("odd", "Exists", *HUNDRED),
    "tolerations of other taints": Constraints(
        tolerations=tuple(Toleration(each, "Exists") for each in HUNDRED)
    ),
}


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    facts = [
        gpu_node(f"n{number:04}", labels=labels_of(number), taints=taints_of(number))
        for number in range(NODES)
    ]
    return ledger_of(*facts)


def labels_of(number: int) -> dict[str, str]:
    odd = {"odd": str(number)} if number % 10 == 1 else {}
    return {
        "nvidia.com/gpu.memory": "81920",
        "kubernetes.io/hostname": f"n{number:04}",
        "rank": str(number),
        "group": str(number % 8),
        **odd,
    }


def taints_of(number: int) -> tuple[Taint, ...]:
    return (Taint("team", "NoSchedule", str(number % 40)),) if number % 2 else ()


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What nodes are asked one by one."""
    asked: list[str] = []
    real = kube.matching._holds
    monkeypatch.setattr(kube.matching, "_holds", lambda *one: (asked.append("_holds"), real(*one))[1])
    return asked


@pytest.mark.parametrize("dear", DEAR)
@pytest.mark.parametrize("reservation", [None, "r"])
def test_a_hundred_terms_are_not_put_to_every_node(
    ledger: Ledger, compared: list[str], dear: str, reservation: str | None
) -> None:
    ledger.place(eighths(1, constraints=DEAR[dear], reservation=reservation), 0.0)
    assert len(compared) <= MOST_COMPARISONS
    assert 0 < ledger._finder.work.spent <= MOST_COMPARISONS


def test_a_pod_that_demands_more_is_refused_and_holds_nothing(ledger: Ledger) -> None:
    before = books(ledger)
    answer = ledger.place(endless(reservation="refused"), 0.0)
    assert isinstance(answer, Unschedulable)
    assert answer.is_too_much
    assert books(ledger) == before
    assert isinstance(ledger.place(eighths(1), 0.0), Placement)


def test_many_bounds_on_a_label_with_a_value_of_its_own_on_each_node_are_refused(ledger: Ledger) -> None:
    answer = ledger.place(eighths(1, constraints=each_term("rank", "Gt", *HUNDRED)), 0.0)
    assert isinstance(answer, Unschedulable)
    assert answer.is_too_much


def test_nodes_that_only_pods_name_let_no_decision_compare_more() -> None:
    pods = tuple([holder(f"p{at}", f"ghost-{at}", (0, 1)) for at in range(50)])
    ledger = ledger_of(gpu_node("n0"), holders=pods)
    ledger.place(eighths(1), 0.0)
    assert ledger._finder.work.most == LEAST_WORK + WORK_PER_NODE


def test_a_pod_with_one_selector_is_not_charged_for_nodes_that_others_left_free() -> None:
    rows = 100
    facts = [gpu_node(f"n{at:04}", 1, labels=labels_of(at) | {"row": str(at % rows)}) for at in range(10_000)]
    full = tuple([holder(f"p{at}", facts[at].name, (0, 8)) for at in range(7, 10_000, rows)])
    ledger = ledger_of(*facts, holders=full)
    one_row = eighths(4, constraints=Constraints(node_selector={"row": "7"}))
    placed = ledger.place(one_row, 0.0)
    assert isinstance(placed, Placement)
    assert placed.node is None
    assert ledger._finder.work.spent < 10


def endless(**changes: object) -> PlacementRequest:
    values = tuple(f"v{number}" for number in range(30_000))
    return eighths(1, constraints=one_term("rank", "NotIn", values), **changes)
