"""In which order requests are served, why some are not, and how much work a plan may be."""

import pytest

from controller.geometry.planner import FIRST_PAUSE_SECONDS, IN_USE, NO_ROOM, Planner
from controller.geometry.planner import plan as ordered_plan
from kube.scheduling import Taint, Toleration
from modes.mig_profiles import A100_40GB
from tests.controller.geometry.planned import ANYWHERE, changes_of, node, only_on, plan, request

SEVEN = ("1g.5gb",) * 7
WHOLE = ("7g.40gb",)
LATER = "2026-01-01T12:10:00Z"


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


def test_no_card_is_divided_for_a_while_for_a_pod_that_did_not_use_the_last():
    planner, waits = Planner(), request("p")
    assert plan([node()], [waits], planner)
    planner.divided(["p"], 0.0)
    assert plan([node()], [waits], planner, FIRST_PAUSE_SECONDS - 1) == []
    assert plan([node()], [waits], planner, FIRST_PAUSE_SECONDS)


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


def test_a_paused_node_is_left_as_it_is_and_the_first_that_can_be_divided_is_reported():
    nodes = [
        node("a", SEVEN, paused_until="2026-01-01T12:30:00Z"),
        node("b", SEVEN, paused_until=LATER),
        node("c", WHOLE, held={"7g.40gb": 1}, paused_until="2026-01-01T12:00:00Z"),
    ]
    assert plan(nodes, [request("p")]) == []
    assert why(nodes, request("p")) == f"node b can be divided for it after a pause, not before {LATER}"


def test_a_card_that_is_not_divided_is_divided_in_a_pause():
    (change,) = plan([node("a", SEVEN, (), paused_until=LATER)], [request("p")])
    assert change.card == 1


def test_pods_that_wait_for_cards_in_use_learn_that():
    assert why([node("a", SEVEN, held={"1g.5gb": 1})], request("p")) == IN_USE


def test_pods_that_are_alike_cost_one_search():
    nodes = [node(f"n{number}", SEVEN, held={"1g.5gb": 1}) for number in range(20)]
    pods = [request(f"p{number}") for number in range(5000)]
    assert len(ordered_plan(nodes, pods, steps=100).unserved) == 5000


@pytest.mark.parametrize("constraints", [only_on("none"), only_on(*[f"x{i}" for i in range(200)])])
def test_namespaces_that_one_plan_does_not_reach_come_first_in_the_next(constraints, monkeypatch):
    """The others have pods that are all different and fit nowhere."""
    monkeypatch.setattr("controller.geometry.planner.plan", lambda *given: ordered_plan(*given, steps=200))
    planner, nodes = Planner(), [node(f"n{number}") for number in range(20)]
    pods = [
        request(f"p{i}", namespace=f"greedy{i % 3}", since="1", constraints=constraints, cpu_milli=i)
        for i in range(300)
    ]
    pods.append(request("p", namespace="modest", since="2"))
    changes = []
    for now in range(1, 5):
        changes += plan(nodes, pods, planner, float(now))
    assert {"p"} in [set(change.pods) for change in changes]


def test_a_request_for_any_number_of_instances_ends():
    nodes = [node("a", *[SEVEN] * 16)]
    assert changes_of(nodes, ordered_plan(nodes, [request("p", "3g.20gb", 10**9)])) == []
    assert plan([node(card=A100_40GB)], [request("p", "9g.99gb")]) == []
