"""In which order requests are served, why some are not, and how much work a plan may be."""

from controller.geometry.planner import IN_USE, NO_CARD, NO_ROOM, Planner
from kube.scheduling import Taint, Toleration
from tests.controller.geometry.planned import ANYWHERE, node, only_on, plan, request

SEVEN = ("1g.5gb",) * 7


def why(nodes, *requests, of="p"):
    return Planner().plan(nodes, requests, 0.0).unserved[of]


def test_namespaces_that_ask_for_incompatible_divisions_are_served_in_turn():
    """Each has more pods than can ever be served, the one's all older."""
    planner, served, cards = Planner(), [], SEVEN
    for now in range(6):
        want = "7g.40gb" if cards == SEVEN else "1g.5gb"
        pods = [request(f"{name}{i}", want, namespace=name, since=name) for name in "ab" for i in range(9)]
        (change,) = plan([node("n0", cards)], pods, planner, float(now))
        served += [pod[0] for pod in change.pods]
        cards = change.geometry
    assert served == ["a", "b"] * 3


def test_a_card_is_divided_only_where_the_pod_has_cpu_and_memory():
    nodes = [node("a", cpu_free=999), node("b", cpu_free=1000)]
    (change,) = plan(nodes, [request("p", cpu_milli=1000)])
    assert change.node == "b"
    assert why([node(memory_free=2**30)], request("p", memory_bytes=2**30 + 1)) == NO_ROOM


def test_cpu_is_given_out_once():
    both = [request("p", "7g.40gb", cpu_milli=600, since="1"), request("q", "7g.40gb", cpu_milli=600)]
    nodes = [node("a", (), (), cpu_free=1000)]
    (change,) = plan(nodes, both)
    assert change.pods == {"q"}
    assert why(nodes, *both) == IN_USE


def test_a_pod_that_lacks_cpu_does_not_use_free_instances():
    tight = node("a", SEVEN, cpu_free=1000)
    (change,) = plan([tight], [request("p", "1g.5gb", cpu_milli=1001), request("q", "7g.40gb")])
    assert change.pods == {"q"}


def test_only_nodes_whose_labels_and_taints_a_pod_accepts_are_divided():
    tainted = node("a", taints=(Taint("team", "NoSchedule", "x"),))
    assert plan([tainted], [request("p")]) == []
    tolerant = type(ANYWHERE)(tolerations=(Toleration("team", "Exists"),))
    assert plan([tainted], [request("p", constraints=tolerant)])
    assert why([node("a")], request("p", constraints=only_on("b"))) == NO_ROOM


def test_in_the_pause_of_a_node_only_cards_that_are_not_divided_are():
    assert why([node("a", SEVEN, is_paused=True)], request("p")) == IN_USE
    (change,) = plan([node("a", SEVEN, (), is_paused=True)], [request("p")])
    assert change.card == 1


def test_pods_learn_whether_cards_are_in_use_or_none_has_what_they_ask_for():
    nodes = [node("a", SEVEN, held={"1g.5gb": 1})]
    assert why(nodes, request("p")) == IN_USE
    assert why(nodes, request("p", "9g.99gb")) == NO_CARD


def test_pods_that_are_alike_cost_one_search():
    nodes = [node(f"n{number}", SEVEN, held={"1g.5gb": 1}) for number in range(20)]
    pods = [request(f"p{number}") for number in range(5000)]
    assert len(Planner().plan(nodes, pods, 0.0).unserved) == 5000


def test_a_plan_ends_when_its_time_is_over_and_the_next_begins_with_the_namespaces_left(monkeypatch):
    """The others have pods that are all different and fit nowhere."""
    monkeypatch.setattr("controller.geometry.planner.PLAN_SECONDS", 0.0)
    planner, nodes = Planner(), [node(f"n{number}") for number in range(3)]
    pods = [
        request(f"p{i}", namespace=f"greedy{i % 3}", since="1", constraints=only_on("none"), cpu_milli=i)
        for i in range(300)
    ]
    pods.append(request("p", namespace="modest", since="2"))
    found = [planner.plan(nodes, pods, float(now)) for now in range(4)]
    assert [len(each.unserved) for each in found] == [1, 1, 1, 0]
    assert {pod for new in found[3].divisions.values() for pod in new.pods} == {"p"}


def test_a_request_for_any_number_of_instances_ends():
    assert plan([node("a", *[SEVEN] * 16)], [request("p", "3g.20gb", 10**9)]) == []
