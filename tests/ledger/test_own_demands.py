"""What a pod demands of its node is compared with nodes as the scheduler does it, and not without end."""

from kube.matching import labels_match
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
