"""The index of labels finds the nodes that asking each of them by itself finds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.matching import labels_match
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.placement import label_index
from ledger.placement.label_index import LabelIndex
from modes.facts import NodeFact
from tests.effort import by_turns, examples

NAMES = [f"n{number}" for number in range(6)] + ["7", "-1"]
KEYS = ["zone", "rank", "kubernetes.io/hostname", "nobody-has-it"]
ARABIC_SEVEN = "\u0667"
NUMBERS = ["7", "+7", "07", "-3", "7.0", " 7", ARABIC_SEVEN, str(2**63 - 1), str(2**63), str(-(2**63))]
VALUES = ["a", "b", "", *NUMBERS, *NAMES]
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Nonsense", ""]

texts = st.lists(st.sampled_from(VALUES), max_size=3).map(tuple)
expressions = st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(OPERATORS), texts | st.none())
fields = st.builds(
    Requirement, st.sampled_from(["metadata.name", "metadata.uid"]), st.sampled_from(OPERATORS), texts
)
terms = st.builds(
    NodeSelectorTerm,
    st.none() | st.lists(expressions, max_size=3).map(tuple),
    st.none() | st.lists(fields, max_size=2).map(tuple),
)
demands = st.builds(
    Constraints,
    node_selector=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2),
    required_terms=st.none() | st.lists(terms, max_size=3).map(tuple),
)
labels = st.dictionaries(st.sampled_from(KEYS[:3]), st.sampled_from(VALUES), max_size=3)
changes = st.lists(st.tuples(st.sampled_from(NAMES), labels | st.none()), max_size=14)


@given(changes, st.lists(demands, min_size=1, max_size=4))
@settings(max_examples=examples(by_turns("ledger", usual=200, full=500)), deadline=None)
def test_whatever_nodes_came_and_went_it_finds_what_asking_each_node_finds(
    told: list[tuple[str, dict[str, str] | None]], asked: list[Constraints]
) -> None:
    index, known = LabelIndex(), dict[str, NodeFact]()
    for name, found in told:
        if name in known:
            index.remove(known.pop(name))
        if found is not None:
            known[name] = NodeFact(name=name, labels=found)
            index.add(known[name])
        for constraints in asked:
            assert names_of(index, constraints) == {
                each for each, fact in known.items() if labels_match(constraints, each, fact.labels)
            }
    for fact in known.values():
        index.remove(fact)
    assert (index.nodes, index.numbers, index._values, index._having_key) == (0, {}, {}, {})


def test_a_hundred_bounds_on_a_label_with_its_own_value_on_each_node_read_each_value_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index, read, real = LabelIndex(), list[str | None](), label_index.integer
    for number in range(1000):
        index.add(NodeFact(name=f"n{number}", labels={"rank": str(number)}))
    monkeypatch.setattr(label_index, "integer", lambda text: (read.append(text), real(text))[1])
    bounds = [Requirement("rank", ("Gt", "Lt")[each % 2], (str(each),)) for each in range(100)]
    terms = tuple([NodeSelectorTerm((bound,)) for bound in bounds])
    assert index.matching(Constraints(required_terms=terms)) == index.nodes
    assert len(read) == 1000


def test_nothing_is_kept_of_the_keys_that_pods_name_and_no_node_has() -> None:
    index = LabelIndex()
    index.add(NodeFact(name="n", labels={"rank": "7"}))
    asked = NodeSelectorTerm((Requirement("nobody-has-it", "Gt", ("1",)),))
    assert index.matching(Constraints(required_terms=(asked,))) == 0
    assert not index._ladders


def names_of(index: LabelIndex, constraints: Constraints) -> set[str]:
    return {*index.named(index.matching(constraints))}
