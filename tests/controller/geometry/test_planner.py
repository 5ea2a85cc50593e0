"""The planner alone, and in a cluster that does what it says."""

from collections import Counter

from modes.mig_geometry import geometry
from tests.controller.geometry.planned import node, plan, request

SEVEN = geometry(["1g.5gb"] * 7)
HALVES = ("3g.20gb", "3g.20gb")


def test_a_request_that_fits_changes_nothing():
    assert plan([node("a", HALVES)], [request("p")]) == []


def test_idle_instances_go_when_a_request_cannot_fit():
    (change,) = plan([node("a", SEVEN)], [request("p")])
    assert Counter(change.geometry) >= Counter({"3g.20gb": 1, "1g.5gb": 4})


def test_of_two_cards_divided_alike_either_may_be_in_use():
    assert plan([node("a", SEVEN, SEVEN, held={"1g.5gb": 1})], [request("p")]) == []


def test_a_card_that_has_none_of_the_held_profiles_is_idle():
    (change,) = plan([node("a", SEVEN, HALVES, held={"3g.20gb": 2})], [request("p")])
    assert change.card == 0


def test_an_empty_card_is_taken_before_idle_instances_go():
    (change,) = plan([node("a", SEVEN), node("b", ())], [request("p")])
    assert change.node == "b"


def test_free_instances_are_reserved_for_nobody():
    """The scheduler has until the cordon to bind a pod to them: then the division is dropped."""
    waits, young = request("old", "1g.5gb", since="1"), request("young", "7g.40gb", since="2")
    (change,) = plan([node("a", SEVEN)], [waits, young])
    assert change.pods == {"young"}


def test_two_requests_at_once_share_a_card():
    (change,) = plan([node()], [request("p"), request("q", "4g.20gb")])
    assert change.geometry == ("3g.20gb", "4g.20gb")


def test_the_older_of_two_requests_is_served_first():
    old, young = request("old", "7g.40gb", since="1"), request("young", since="2")
    (change,) = plan([node()], [young, old])
    assert (change.pods, change.geometry) == ({"old"}, ("7g.40gb",))


def test_cards_of_one_node_are_divided_at_once_and_none_while_it_changes():
    both = [request("p", "7g.40gb"), request("q", "7g.40gb")]
    assert {(each.node, each.card) for each in plan([node("a", (), ())], both)} == {("a", 0), ("a", 1)}
    assert plan([node("a", (), (), is_changing=True)], both) == []


def test_a_change_under_way_serves_whom_it_is_for():
    changing = node("a", ("7g.40gb",), is_changing=True)
    assert plan([changing, node("b")], [request("p", "7g.40gb")]) == []


def test_a_pod_of_many_instances_gets_all_cards_at_once():
    wanted = request("p", "3g.20gb", 4)
    first, second = plan([node("a", (), ())], [wanted])
    assert {first.card, second.card} == {0, 1}
    assert first.geometry == second.geometry == HALVES
    (rest,) = plan([node("a", HALVES, ())], [wanted])
    assert (rest.card, rest.geometry) == (1, HALVES)
    assert plan([node("a", HALVES, HALVES)], [wanted]) == []


def test_nothing_is_destroyed_for_a_request_that_would_still_not_fit():
    assert plan([node("a", SEVEN)], [request("p", "3g.20gb", 3)]) == []
