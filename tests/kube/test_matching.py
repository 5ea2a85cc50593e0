from __future__ import annotations

import pytest

from kube.matching import labels_match, tolerates
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement, Taint, Toleration

LABELS = {"zone": "a", "rank": "7", "big": str(2**63)}


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", (), False),
        ("gone", "In", ("a",), False),
        ("zone", "NotIn", ("a",), False),
        ("gone", "NotIn", ("a",), True),
        ("zone", "Exists", (), True),
        ("gone", "Exists", (), False),
        ("zone", "DoesNotExist", (), False),
        ("gone", "DoesNotExist", (), True),
        ("rank", "Gt", ("6",), True),
        ("rank", "Gt", ("7",), False),
        ("rank", "Lt", ("+8",), True),
        ("rank", "Lt", ("7",), False),
        ("rank", "Gt", ("6", "5"), False),
        ("rank", "Gt", ("6.5",), False),
        ("zone", "Gt", ("1",), False),
        ("gone", "Lt", ("1",), False),
        ("big", "Gt", ("1",), False),
        ("zone", "Like", ("a",), False),
    ],
)
def test_every_operator_of_node_affinity(key, operator, values, holds) -> None:
    term = NodeSelectorTerm((Requirement(key, operator, values),))
    assert labels_match(Constraints(required_terms=(term,)), "n", LABELS) is holds


def test_terms_are_alternatives_and_what_is_in_one_must_all_hold() -> None:
    right, wrong = Requirement("zone", "In", ("a",)), Requirement("zone", "In", ("b",))
    assert labels_match(
        Constraints(required_terms=(NodeSelectorTerm((wrong,)), NodeSelectorTerm((right,)))), "n", LABELS
    )
    assert not labels_match(Constraints(required_terms=(NodeSelectorTerm((right, wrong)),)), "n", LABELS)
    assert not labels_match(
        Constraints(required_terms=(NodeSelectorTerm(), NodeSelectorTerm((), ()))), "n", LABELS
    )
    assert not labels_match(Constraints(required_terms=()), "n", LABELS)


def test_fields_match_the_name_of_the_node_and_no_other_field() -> None:
    named = NodeSelectorTerm(None, (Requirement("metadata.name", "In", ("n",)),))
    assert labels_match(Constraints(required_terms=(named,)), "n", {})
    assert not labels_match(Constraints(required_terms=(named,)), "m", {})
    odd = NodeSelectorTerm(None, (Requirement("metadata.uid", "NotIn", ("n",)),))
    assert not labels_match(Constraints(required_terms=(odd,)), "n", {})


def test_the_node_selector_must_match_to_the_letter() -> None:
    assert labels_match(Constraints({"zone": "a"}), "n", LABELS)
    assert not labels_match(Constraints({"zone": "A"}), "n", LABELS)
    assert not labels_match(Constraints({"gone": ""}), "n", LABELS)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration("team", "Exists"), True),
        (Toleration("team", "Exists", effect="NoSchedule"), True),
        (Toleration("team", "Exists", effect="NoExecute"), False),
        (Toleration("team", "Equal", "blue"), True),
        (Toleration("team", None, "blue"), True),
        (Toleration("team", None, "red"), False),
        (Toleration("team"), False),
        (Toleration("other", "Exists"), False),
        (Toleration(None, "Equal", "blue"), False),
    ],
)
def test_a_toleration_meets_a_taint(toleration, tolerated) -> None:
    taint = Taint("team", "NoSchedule", "blue")
    assert tolerates([toleration], [taint]) is tolerated


def test_a_taint_that_only_asks_keeps_no_pod_off() -> None:
    assert tolerates([], [Taint("team", "PreferNoSchedule")])
