"""Classes are told apart by few labels, those that pods name most, and for no longer than they do."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.ledger import Ledger
from ledger.placement import class_keys, node_index
from ledger.placement.class_keys import MAX_CLASS_KEYS, PODS_OF_A_WINDOW, ClassKeys
from ledger.placement.feasibility import obstacle
from ledger.placement.node_index import MAX_LABEL_CLASSES, MOVES_AT_ONCE
from ledger.placement_request import Placement
from modes.facts import NodeFact
from tests.effort import by_turns, examples
from tests.ledger.cluster import eighths, gpu_node, ledger_of
from tests.ledger.oracle import assert_right, slow_nodes, worth_for
from tests.ledger.strategies import asks, nodes

LABELS = 40
NAMED = ["zone", "rank", "kind"]
BOUNDS = (
    (class_keys, "MAX_CLASS_KEYS", 2),
    (class_keys, "PODS_OF_A_WINDOW", 3),
    (node_index, "MAX_VALUES_OF_A_CLASS_KEY", 4),
    (node_index, "MAX_LABEL_CLASSES", 4),
    (node_index, "MOVES_AT_ONCE", 1),
)
"""So low that classes come and go all the time."""


def many_labels(count: int) -> Ledger:
    """Nodes with labels that have 30 values each, so that any two of them make hundreds of classes."""
    draw = random.Random(0)  # noqa: S311 - a repeatable cluster, no secret
    facts = []
    for number in range(count):
        own = {f"label-{each}": str(draw.randrange(30)) for each in range(LABELS)}
        facts.append(gpu_node(f"n{number:04}", labels={"nvidia.com/gpu.memory": "81920", **own}))
    return ledger_of(*facts)


def name(ledger: Ledger, *keys: str, reservation: str | None = "r") -> None:
    """Place a pod that names labels, and let it go."""
    ledger.place(eighths(1, constraints=Constraints(dict.fromkeys(keys, "1")), reservation=reservation), 0.0)
    if reservation is not None:
        ledger.release(reservation)


def wait(ledger: Ledger) -> None:
    """Place as many pods as it takes for what nobody names to be forgotten."""
    for _ in range(2 * PODS_OF_A_WINDOW + 10):
        name(ledger)


def test_whatever_labels_a_pods_author_names_classes_stay_few_and_are_forgotten() -> None:
    ledger = many_labels(300)
    for number in range(3 * LABELS):
        name(ledger, f"label-{number % LABELS}", f"label-{number * 7 % LABELS}")
        assert len(ledger._node_index.classes) <= 2 * (1 + MAX_LABEL_CLASSES)
        assert len(ledger._node_index._keys.keys) <= MAX_CLASS_KEYS
    assert len(ledger._node_index.classes) > 1
    wait(ledger)
    assert len(ledger._node_index.classes) == 1


def test_a_dry_run_teaches_nothing() -> None:
    ledger = many_labels(50)
    name(ledger)
    before = ledger._node_index.generation
    for number in range(LABELS):
        name(ledger, f"label-{number}", reservation=None)
    assert len(ledger._node_index.classes) == 1
    assert ledger._node_index.generation == before


def test_what_pods_go_on_naming_stays() -> None:
    ledger = many_labels(50)
    for _ in range(3):
        name(ledger, "label-3")
        for _ in range(PODS_OF_A_WINDOW - 1):
            name(ledger)
        assert ledger._node_index._keys.keys == ("label-3",)


def test_one_decision_moves_a_part_of_a_large_cluster_and_the_next_ones_the_rest() -> None:
    labels = [{"nvidia.com/gpu.memory": "81920", "kind": str(number % 4)} for number in range(900)]
    ledger = ledger_of(*[gpu_node(f"n{number:04}", labels=each) for number, each in enumerate(labels)])
    name(ledger)
    moved = []
    for _ in range(6):
        before = {each: account.node_class for each, account in ledger._node_index.accounts.items()}
        name(ledger, "kind")
        now = {each: account.node_class for each, account in ledger._node_index.accounts.items()}
        moved.append(sum(before[each] is not now[each] for each in now))
    assert sum(moved) == 675
    assert max(moved) <= MOVES_AT_ONCE
    assert [len(each.members) for each in ledger._node_index.classes.values()] == [225] * 4


def test_the_label_that_is_named_least_makes_room_for_one_that_is_named_twice_as_often() -> None:
    keys = ClassKeys()
    for number in range(MAX_CLASS_KEYS):
        keys.add(f"label-{number}")
    for number in range(MAX_CLASS_KEYS):
        for _ in range(number + 2):
            keys.note([f"label-{number}"])
    for _ in range(5):
        keys.note(["new"])
    assert keys.forget()
    assert keys.keys == tuple([f"label-{number}" for number in range(1, MAX_CLASS_KEYS)])
    assert keys.wanted(["new"]) == ["new"]


def test_a_label_that_many_pods_name_is_counted_however_many_others_are_named_once() -> None:
    keys = ClassKeys()
    for number in range(2000):
        keys.note(["zone", *[f"junk-{number}-{each}" for each in range(3)]])
    assert max(keys._counts, key=keys._counts.__getitem__) == "zone"
    assert len(keys._counts) <= 64


def test_classes_that_nodes_with_new_values_make_too_many_are_merged_again() -> None:
    ledger = many_labels(20)
    name(ledger, "label-0")
    for number in range(2 * MAX_LABEL_CLASSES):
        labels = {"nvidia.com/gpu.memory": "81920", "label-0": f"new-{number}"}
        ledger.set_node(gpu_node(f"late-{number}", labels=labels))
    for _ in range(4):
        name(ledger)
    assert len(ledger._node_index.classes) == 1


def test_what_is_remembered_of_others_outlives_the_labels_that_one_pod_names_in_vain() -> None:
    ledger = many_labels(50)
    honest = eighths(2, constraints=Constraints({"label-1": "1"}))
    first = ledger._finder.select(honest)
    for number in range(2000):
        ledger.place(eighths(1, constraints=Constraints({f"unknown-{number}": "x" * 60})), 0.0)
        if number % 100 == 0:
            assert ledger._finder.select(eighths(2, constraints=honest.demands.constraints)) is first


@given(
    st.lists(nodes(), max_size=7),
    st.lists(st.tuples(asks, st.booleans()), min_size=1, max_size=12),
    st.lists(nodes(), max_size=3),
)
@settings(max_examples=examples(by_turns("ledger", usual=60, full=150)), deadline=None)
def test_however_classes_come_and_go_answers_are_what_the_slow_checker_says(
    some_nodes, some_asks, changed
) -> None:
    by_name = {node.name: node for node in some_nodes}
    with pytest.MonkeyPatch.context() as patch:
        for module, bound, most in BOUNDS:
            patch.setattr(module, bound, most)
        ledger = Ledger()
        ledger.replace(by_name.values(), [])
        for number, (request, is_real) in enumerate(some_asks):
            if number % 4 == 3 and changed:
                node = changed.pop()
                by_name[node.name] = node
                ledger.set_node(node)
            worth = worth_for(ledger, request)
            answer = ledger.place(request, 0.0)
            assert_right(answer, request, slow_nodes(by_name.values(), [], ledger), worth)
            if is_real:
                named = eighths(1, constraints=request.demands.constraints, reservation="r")
                if isinstance(ledger.place(named, 0.0), Placement):
                    ledger.release("r")


@pytest.mark.parametrize("seed", range(by_turns("ledger", usual=2, full=6)))
def test_while_nodes_and_classes_come_and_go_what_could_hold_a_pod_is_what_asking_each_node_says(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, bound, most in BOUNDS:
        monkeypatch.setattr(module, bound, most)
    draw = random.Random(seed)  # noqa: S311 - a repeatable cluster, no secret
    ledger, facts = Ledger(), dict[str, NodeFact]()
    for number in range(400):
        node = f"n{draw.randrange(12)}"
        if number % 3 == 0:
            own = {key: draw.choice("abc17") for key in draw.sample(NAMED, draw.randrange(4))}
            facts[node] = gpu_node(
                node, draw.choice([1, 2]), labels={"nvidia.com/gpu.memory": "81920", **own}
            )
            ledger.set_node(facts[node])
        elif number % 7 == 0:
            facts.pop(node, None)
            ledger.remove_node(node)
        key, operator = (
            draw.choice(["zone", "rank", "kind"]),
            draw.choice(["In", "NotIn", "Exists", "Gt", "Lt"]),
        )
        term = NodeSelectorTerm((Requirement(key, operator, (draw.choice("abc17"),)),))
        demands = Constraints(required_terms=(term,))
        request = eighths(draw.choice([1, 4, 8, 16]), constraints=demands, reservation="r")
        ledger._finder.begin()
        chosen = ledger._finder.select(request).nodes
        found = {each for each in facts if chosen >> ledger._finder._node_index.numbers[each] & 1}
        assert found == {each for each, fact in facts.items() if obstacle(fact, request) is None}
        assert isinstance(ledger.place(request, 0.0), Placement) == bool(found)


def test_a_pod_that_takes_a_part_of_a_class_waits_for_what_that_part_offers() -> None:
    common = gpu_node("x").labels
    ledger = ledger_of(*[gpu_node(f"n{i:03}", 2, labels=common | {"rank": str(i)}) for i in range(200)])
    late = NodeSelectorTerm((Requirement("rank", "Gt", ("99",)),))
    kinds = ledger._finder.select(eighths(4, constraints=Constraints(required_terms=(late,)))).kinds
    assert [kind.capacity for kind in kinds.values()] == [{0: 800, 1: 800}]
