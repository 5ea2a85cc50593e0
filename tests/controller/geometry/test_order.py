"""In which order requests are served, why some are not, and how much work a plan may be."""

import random

from controller.geometry.model import MigNode, MigRequest, Steps, UnservedReason
from controller.geometry.planner import MAX_STEPS, plan
from modes.mig_geometry import full_geometries
from modes.mig_profiles import A100_40GB
from tests.controller.geometry.planned import node

SEVEN = ("1g.5gb",) * 7
WHOLE = ("7g.40gb",)


def request(name, profile="3g.20gb", namespace="team", **more):
    return MigRequest((namespace, name), ((profile, 1),), uid=f"uid-{name}", **more)


def paused(name, until, *cards):
    return MigNode(name, A100_40GB, cards, paused_until=until)


def why(nodes, *requests, of="p"):
    planned = plan(nodes, requests)
    (found,) = [each for key, each in planned.unserved.items() if key[1] == of]
    return found


def test_who_was_served_longer_ago_is_served_by_the_next_division():
    old = request("old", "7g.40gb", namespace="a", since="1")
    young = request("young", "1g.5gb", namespace="b", since="2")
    assert plan([node()], [old, young]).changes[0].request == ("a", "old")
    assert plan([node()], [old, young], {"a": 1.0}).changes[0].request == ("b", "young")


def test_idle_instances_of_who_has_had_its_turn_are_divided_for_others():
    waits = request("waits", "1g.5gb", namespace="a", since="1")
    large = request("large", "7g.40gb", namespace="b", since="2")
    assert plan([node("a", SEVEN)], [waits, large]).changes == ()
    (change,) = plan([node("a", SEVEN)], [waits, large], {"a": 1.0}).changes
    assert change.request == ("b", "large")


def test_a_card_is_divided_only_where_the_pod_has_cpu_and_memory():
    small, large = MigNode("a", A100_40GB, ((),), cpu_free=999), MigNode("b", A100_40GB, ((),), cpu_free=1000)
    (change,) = plan([small, large], [request("p", cpu_milli=1000)]).changes
    assert change.node == "b"
    tight = MigNode("a", A100_40GB, ((),), memory_free=2**30)
    assert plan([tight], [request("p", memory_bytes=2**30 + 1)]).changes == ()
    assert why([tight], request("p", memory_bytes=2**30 + 1)).reason is UnservedReason.NO_ROOM


def test_cpu_is_given_out_once():
    both = [request("p", cpu_milli=600, since="1"), request("q", cpu_milli=600, since="2")]
    tight = MigNode("a", A100_40GB, ((), ()), cpu_free=1000)
    assert {change.request for change in plan([tight], both).changes} == {("team", "p")}
    assert why([tight], *both, of="q").reason is UnservedReason.NOT_ITS_TURN


def test_free_instances_are_set_aside_only_where_the_pod_has_cpu():
    tight = MigNode("a", A100_40GB, (SEVEN,), cpu_free=1000)
    planned = plan([tight], [request("p", "1g.5gb", cpu_milli=1001), request("q", "7g.40gb", cpu_milli=1)])
    assert not planned.set_aside
    assert [change.request for change in planned.changes] == [("team", "q")]


def test_what_is_set_aside_is_reported_but_not_of_a_node_that_changes():
    assert plan([node("a", SEVEN)], [request("p", "1g.5gb")]).set_aside == {("team", "p"): "a"}
    assert plan([node("a", SEVEN, is_changing=True)], [request("p", "1g.5gb")]).set_aside == {}


def test_a_paused_node_is_left_as_it_is_and_the_first_that_can_be_divided_is_reported():
    nodes = [paused("a", 700.0, SEVEN), paused("b", 500.0, SEVEN), paused("c", 300.0, WHOLE)]
    assert plan(nodes, [request("p", "3g.20gb")]).changes == ()
    held = MigNode("c", A100_40GB, (WHOLE,), {"7g.40gb": 1}, paused_until=300.0)
    found = why([*nodes[:2], held], request("p", "3g.20gb"))
    assert (found.reason, found.node.name) == (UnservedReason.PAUSED, "b")


def test_a_card_that_is_not_divided_is_divided_in_a_pause():
    (change,) = plan([paused("a", 700.0, SEVEN, ())], [request("p", "3g.20gb")]).changes
    assert change.card == 1


def test_who_waits_for_cards_in_use_is_distinguished_from_who_waits_for_a_turn():
    in_use = MigNode("a", A100_40GB, (SEVEN,), {"1g.5gb": 1})
    assert why([in_use], request("p")).reason is UnservedReason.IN_USE
    first = request("first", "7g.40gb", since="1")
    assert why([node()], first, request("p", since="2")).reason is UnservedReason.NOT_ITS_TURN


def test_a_plan_is_no_more_work_than_it_may_be_and_names_whom_it_did_not_come_to():
    rng = random.Random(5)  # noqa: S311 - a repeatable cluster, no secret
    full = full_geometries(A100_40GB)
    nodes = [MigNode(f"n{i:03}", A100_40GB, tuple(rng.choices(full, k=8)), cpu_free=i) for i in range(200)]
    names = [profile.name for profile in A100_40GB.profiles]
    requests = [
        MigRequest((f"ns{i:02}", "p"), ((names[0], 25 + i), (names[-2], 5), (names[-3], 3)), cpu_milli=i % 7)
        for i in range(60)
    ]
    work = Steps(20_000)
    planned = plan(nodes, requests, {}, work)
    assert work.is_over
    assert work.left > -1000
    assert planned.unreached
    assert {f"ns{i:02}" for i in range(60)} > planned.unreached
    whole = Steps(MAX_STEPS)
    assert not plan(nodes[:4], requests[:4], {}, whole).unreached
