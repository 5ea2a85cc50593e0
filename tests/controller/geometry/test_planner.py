"""The planner alone, and in a cluster that does what it says."""

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from modes.mig_geometry import full_geometries, geometries, geometry
from modes.mig_profiles import A30, A100_40GB, H100_80GB
from tests.controller.geometry.planned import node, plan, request, request_of
from tests.effort import examples

SEVEN = geometry(["1g.5gb"] * 7)
HALVES = ("3g.20gb", "3g.20gb")


def test_a_request_that_fits_changes_nothing():
    assert plan([node("a", HALVES)], [request("p")]) == []


def test_an_undivided_card_is_divided_for_a_request():
    (change,) = plan([node()], [request("p")])
    assert (change.node, change.card, change.pods) == ("a", 0, {"p"})
    assert "3g.20gb" in change.geometry


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


def test_the_rest_of_a_card_is_what_the_cluster_asks_for():
    busy = node("b", HALVES, held={"3g.20gb": 2})
    (change,) = plan([node("a"), busy], [request("p", "1g.5gb")])
    assert change.geometry == geometry(["3g.20gb", *["1g.5gb"] * 4])


FEW = settings(max_examples=examples(100))


@dataclass
class Pod:
    request: object
    node: str | None = None


class Cluster:
    """Nodes whose cards know where each pod lies; a change of a card in use fails the test."""

    def __init__(self, nodes):
        self.nodes = {each.name: each for each in nodes}
        self.pods = []
        self.used = {each.name: [Counter() for _ in each.division] for each in nodes}

    def free(self, name):
        free = Counter(each for names in self.nodes[name].division for each in names)
        free.subtract(self.nodes[name].held)
        return free

    def bind(self):
        """Bind what fits, as the scheduler does, each instance on any card that has one free."""
        for pod in self.pods:
            for name in self.nodes:
                if pod.node is None and all(
                    self.free(name)[profile] >= count for profile, count in pod.request.mig.wants
                ):
                    self._hold(pod, name)

    def _hold(self, pod, name):
        node = self.nodes[name]
        pod.node = name
        held = Counter(node.held)
        for profile, count in pod.request.mig.wants:
            held[profile] += count
            for _ in range(count):
                card = next(
                    index
                    for index, names in reversed(list(enumerate(node.division)))
                    if names.count(profile) > self.used[name][index][profile]
                )
                self.used[name][card][profile] += 1
        self.nodes[name] = replace(node, held=held)

    def apply(self, change):
        node = self.nodes[change.node]
        assert not self.used[node.name][change.card], "an instance in use would be destroyed"
        assert change.geometry in geometries(node.card)
        cards = list(node.division)
        cards[change.card] = change.geometry
        self.nodes[node.name] = replace(node, division=tuple(cards))

    @property
    def waiting(self):
        return [pod.request for pod in self.pods if pod.node is None]

    def settle(self):
        """Plan, divide and bind until nothing more happens; return the number of plans."""
        rounds = 0
        self.bind()
        while changes := plan(self.nodes.values(), self.waiting):
            rounds += 1
            assert len({(change.node, change.card) for change in changes}) == len(changes)
            for change in changes:
                self.apply(change)
            self.bind()
        return rounds


@st.composite
def clusters(draw, most_cards=3):
    card = draw(st.sampled_from([A30, A100_40GB, H100_80GB]))
    cards = st.lists(st.sampled_from([(), *full_geometries(card)]), min_size=1, max_size=most_cards)
    nodes = [node(f"n{i}", *draw(cards), card=card) for i in range(draw(st.integers(1, 3)))]
    names = st.sampled_from([profile.name for profile in card.profiles])
    wants = st.dictionaries(names, st.integers(1, 3), min_size=1, max_size=2)
    asked = draw(st.lists(wants, max_size=12))
    requests = [request_of(str(i), tuple(sorted(each.items())), str(i)) for i, each in enumerate(asked)]
    return nodes, requests


@FEW
@given(clusters())
def test_no_instance_in_use_is_destroyed_and_planning_ends(drawn):
    nodes, requests = drawn
    cluster = Cluster(nodes)
    for each in requests:
        cluster.pods.append(Pod(each))
        cluster.settle()
    assert cluster.settle() == 0


@FEW
@given(clusters())
def test_a_burst_of_requests_ends_after_as_many_changes_as_are_needed(drawn):
    nodes, requests = drawn
    cluster = Cluster(nodes)
    cluster.pods = [Pod(each) for each in requests]
    cards = max(len(each.division) for each in nodes)
    assert cluster.settle() <= cards * len(requests)


@FEW
@given(clusters(most_cards=1), st.data())
def test_a_request_that_an_idle_card_can_hold_is_never_lost(drawn, data):
    nodes, requests = drawn
    assume(requests)
    cluster = Cluster(nodes)
    cluster.pods = [Pod(data.draw(st.sampled_from(requests)))]
    wanted = Counter(dict(cluster.pods[0].request.mig.wants))
    cluster.settle()
    possible = any(wanted <= Counter(each) for each in geometries(nodes[0].card))
    assert (cluster.pods[0].node is not None) == possible


@FEW
@given(clusters())
def test_the_same_state_makes_the_same_plan_in_any_order(drawn):
    nodes, requests = drawn
    assert plan(nodes, requests) == plan(nodes[::-1], requests[::-1])
