"""On which nodes a waiting pod could ever run: kept while nodes and pods change."""

from hypothesis import given
from hypothesis import strategies as st

from controller.geometry.feasibility import Feasibility
from kube.matching import labels_match
from tests.controller.geometry.test_selection import chosen, names
from tests.controller.geometry.waiting import asking, offer, pod

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)


@given(st.lists(st.lists(LABELS, min_size=1, max_size=3), min_size=1, max_size=4), st.data())
def test_answers_that_are_brought_up_to_date_equal_those_found_from_scratch(rounds, data):
    constraints = [asking(key, *values) for key in "ab" for values in ("x", "y", "xy")]
    pods = [pod(f"p{i}", constraints=each, cpu_milli=i * 1000) for i, each in enumerate(constraints)]
    feasibility = Feasibility()
    for labels in rounds:
        cpu = data.draw(st.integers(0, 6)) * 1000
        offers = [offer(f"n{i}", cpu=cpu, **each) for i, each in enumerate(labels)]
        requests = chosen(pods, offers, feasibility=feasibility).requests
        kept = {request.key: request.nodes for request in requests}
        expected = {}
        for each in pods:
            fitting = {
                node.name
                for node in offers
                if labels_match(each.mig.constraints, node.name, node.labels)
                and each.fact.cpu_milli <= node.cpu_milli
            }
            if fitting:
                expected[each.fact.key] = fitting
        assert kept == expected


def test_nodes_that_come_under_ever_new_names_leave_nothing_behind():
    feasibility = Feasibility()
    for number in range(100):
        assert names(chosen([pod("p")], [offer(f"n{number}")], feasibility=feasibility)) == ["p"]
    assert set(feasibility._changed) == {"n99"}
