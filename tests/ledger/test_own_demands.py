"""What a pod demands of its node is compared with nodes as the scheduler does it, and not without end."""

import pytest

from kube.matching import labels_match, tolerates
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement, Taint, Toleration
from ledger import own_demands
from ledger.own_demands import MAX_COMPARISONS, OwnDemands
from modes.facts import NodeFact

RED = Taint("team", "NoSchedule", "red")
NODES = [
    NodeFact(name="a", labels={"zone": "a"}),
    NodeFact(name="b", labels={"zone": "b"}),
    NodeFact(name="c", labels={"zone": "a"}, taints=(RED,)),
]


def terms(*values, key="zone"):
    return (NodeSelectorTerm((Requirement(key, "In", values),)),)


@pytest.mark.parametrize(
    ("demands", "accepted"),
    [
        (Constraints(), ["a", "b"]),
        (Constraints(node_selector={"zone": "a"}), ["a"]),
        (Constraints(required_terms=terms("b", "c")), ["b"]),
        (Constraints(tolerations=(Toleration("team", "Exists"),)), ["a", "b", "c"]),
        (Constraints({"zone": "a"}, None, (Toleration("team", None, "red"),)), ["a", "c"]),
    ],
)
def test_nodes_are_accepted_as_the_scheduler_accepts_them(demands, accepted):
    own = OwnDemands(demands)
    assert [node.name for node in NODES if own.accept(node)] == accepted
    for node in NODES:
        by_scheduler = labels_match(demands, node.name, node.labels) and tolerates(
            demands.tolerations, node.taints
        )
        assert own.accept(node) is by_scheduler


def test_long_demands_are_compared_with_as_many_nodes_as_the_comparisons_allow(monkeypatch):
    values = tuple(f"zone-{number}" for number in range(1000))
    own, looked_at = OwnDemands(Constraints(required_terms=terms(*values))), []

    def match(*given):
        looked_at.append(given)
        return labels_match(*given)

    monkeypatch.setattr(own_demands, "labels_match", match)
    found = [own.accept(NodeFact(name=f"n{number}", labels={"zone": "zone-7"})) for number in range(1000)]
    assert len(looked_at) == found.count(True) == MAX_COMPARISONS // 1003
    assert found.count(None) == 1000 - found.count(True)


def test_more_tolerations_than_comparisons_leave_none():
    own = OwnDemands(Constraints(tolerations=(Toleration("team", "Exists"),) * (MAX_COMPARISONS + 1)))
    assert own.accept(NODES[0]) is None


def test_terms_that_demand_nothing_are_comparisons_too():
    demands = Constraints(required_terms=(NodeSelectorTerm(),) * MAX_COMPARISONS)
    assert OwnDemands(demands).accept(NODES[0]) is None
