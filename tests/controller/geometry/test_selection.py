"""Whom one plan looks at, and how much work that may be."""

import heapq
from collections import Counter

from controller.geometry.feasibility import MAX_WORK, Feasibility
from controller.geometry.model import Steps
from controller.geometry.planner import MAX_REQUESTS
from controller.geometry.selection import MAX_NAMED, MAX_NAMED_OF_NAMESPACE, select
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.placement.label_index import LEAST_WORK
from tests.controller.geometry.waiting import asking, offer, pod, pod_of

ONE_CARD = (offer(),)


def chosen(pods, offers=ONE_CARD, turns=None, limit=MAX_WORK, feasibility=None):
    feasibility = feasibility or Feasibility()
    feasibility.update(offers)
    return select(pods, feasibility, turns or {}, Steps(limit))


def names(selection):
    return [request.key[1] for request in selection.requests]


def test_within_a_namespace_the_oldest_pods_are_chosen():
    pods = [pod(f"p{number:03}", created=f"{999 - number}") for number in range(150)]
    assert names(chosen(pods)) == [f"p{number:03}" for number in range(149, 49, -1)]


def test_a_namespace_with_ten_thousand_pods_leaves_a_share_to_each_other():
    pods = [pod(f"a{number}", namespace="greedy", created="0") for number in range(10_000)]
    pods += [pod(f"{name}{number}", namespace=name, created="1") for name in "bcd" for number in range(3)]
    selection = chosen(pods)
    assert len(selection.requests) == MAX_REQUESTS
    assert {f"{name}{number}" for name in "bcd" for number in range(3)} <= set(names(selection))


def test_the_namespace_that_was_served_longest_ago_is_first():
    pods = [pod(name, namespace=name, created=name) for name in "abc"]
    assert names(chosen(pods, turns={"a": 7.0, "b": 5.0})) == ["c", "b", "a"]


def test_what_no_node_could_ever_run_is_passed_over_before_anything_is_counted():
    pods = [pod(f"a{number}", "1g.7gb", created="0") for number in range(1000)]
    pods += [pod(f"b{number}", count=3, created="0") for number in range(1000)]
    pods += [pod(f"c{number}", created="0", constraints=asking("disk", "none")) for number in range(1000)]
    pods += [pod(f"d{number}", created="0", cpu_milli=64_001) for number in range(1000)]
    selection = chosen([*pods, pod("p", created="1")])
    assert names(selection) == ["p"]
    assert selection.impossible_count == 2000


def test_pods_known_to_be_impossible_are_counted_and_only_some_of_each_namespace_are_named():
    pods = [pod(f"a{number}", "1g.7gb", namespace="greedy", created="0") for number in range(5000)]
    pods += [pod(f"b{at}", "1g.7gb", namespace=f"ns{at}", created="1") for at in range(50)]
    pods += [pod(f"c{at}", "1g.7gb", namespace=f"more{at}", created="1") for at in range(MAX_NAMED)]
    feasibility = Feasibility()
    for _ in range(2):
        selection = chosen([*pods, pod("p")], feasibility=feasibility)
        assert names(selection) == ["p"]
        assert selection.impossible_count == 5050 + MAX_NAMED
        named = Counter(seen.fact.namespace for seen, _ in selection.impossible)
        assert sum(named.values()) == MAX_NAMED
        assert max(named.values()) - min(named.values()) <= 1


def test_of_one_namespace_so_many_impossible_pods_are_named_and_no_more():
    selection = chosen([pod(f"a{number}", "1g.7gb") for number in range(5000)])
    assert (selection.impossible_count, len(selection.impossible)) == (5000, MAX_NAMED_OF_NAMESPACE)


def test_pods_known_to_be_impossible_are_not_put_in_order_again(monkeypatch):
    taken, pop = [], heapq.heappop
    monkeypatch.setattr(heapq, "heappop", lambda heap: (taken.append(1), pop(heap))[1])
    pods, feasibility = [pod(f"a{number}", "1g.7gb") for number in range(1000)], Feasibility()
    for _ in range(2):
        taken.clear()
        assert names(chosen([*pods, pod("p")], feasibility=feasibility)) == ["p"]
    assert len(taken) == 1


def test_instances_that_fit_by_number_and_by_no_geometry_are_passed_over():
    # 14 of 14 compute slices; but the card next to that with 4g would need four of 2g, and three have room.
    odd = pod_of("p", (("2g.10gb", 5), ("4g.20gb", 1)))
    assert names(chosen([odd], [offer(cards=2)])) == []
    assert names(chosen([odd], [offer(cards=3)])) == ["p"]


def test_pods_that_are_alike_cost_one_search():
    works = []
    for count in (1, 5000):
        work = Steps(MAX_WORK)
        feasibility = Feasibility()
        feasibility.update([offer(f"n{number}") for number in range(20)])
        pods = [pod(f"p{number}", constraints=asking("disk", "none")) for number in range(count)]
        select(pods, feasibility, {}, work)
        works.append(MAX_WORK - work.left)
    assert works[0] == works[1]


def different(count, namespace="greedy", values=50):
    """Pods that no node could run, each for a reason of its own."""
    return [
        pod(
            f"{namespace}{number}",
            namespace=namespace,
            created="0",
            constraints=asking(f"k{number}", *map(str, range(values))),
        )
        for number in range(count)
    ]


def test_pods_that_are_all_different_cost_no_more_than_one_step_may():
    offers = [offer(f"n{number}") for number in range(50)]
    feasibility, work = Feasibility(), Steps(10_000)
    feasibility.update(offers)
    selection = select([*different(2000), pod("p", namespace="modest", created="1")], feasibility, {}, work)
    # The last one began before the work was over, and looked at each node.
    assert work.left > -(100 + 50 * 60)
    assert names(selection) == ["p"]


def test_one_pod_with_very_many_terms_takes_little_more_than_what_one_step_may():
    offers = [offer(f"n{number}") for number in range(5000)]
    asked = [NodeSelectorTerm((Requirement(f"k{at}", "In", ("v",)),)) for at in range(120)]
    feasibility, work = Feasibility(), Steps(1)
    feasibility.update(offers)
    select([pod("p", constraints=Constraints(required_terms=tuple(asked)))], feasibility, {}, work)
    assert work.left > -3 * len(offers)


def test_a_pod_whose_demands_take_too_many_comparisons_is_reported():
    values = tuple(f"v{number}" for number in range(LEAST_WORK + 100))
    (found,) = chosen([pod("p", constraints=asking("disk", *values))]).impossible
    assert "use fewer terms" in found[1]


def test_the_one_that_was_missed_is_first_the_next_time():
    offers = [offer(f"n{number}") for number in range(50)]
    pods = [*different(10), pod("p", namespace="modest", created="1")]
    feasibility = Feasibility()
    first = chosen(pods, offers, limit=1, feasibility=feasibility)
    assert (names(first), first.is_cut, first.seen) == ([], True, {"greedy"})
    second = chosen(pods, offers, dict.fromkeys(first.seen, 1.0), limit=1, feasibility=feasibility)
    assert names(second) == ["p"]


def test_what_was_found_is_known_in_the_next_step_so_that_all_are_looked_at_in_the_end():
    offers = [offer(f"n{number}") for number in range(50)]
    pods = [*different(100), pod("p", namespace="greedy", created="1")]
    feasibility = Feasibility()
    steps = 0
    while not names(chosen(pods, offers, limit=5_000, feasibility=feasibility)):
        steps += 1
        assert steps < 50
    assert steps > 1


def test_more_namespaces_than_one_step_looks_at_are_said_to_be_missed():
    pods = [pod(f"p{number}", namespace=f"ns{number:04}") for number in range(3000)]
    selection = chosen(pods)
    assert len(selection.requests) == MAX_REQUESTS
    assert selection.is_cut
    turns = dict.fromkeys(selection.seen, 1.0)
    assert not selection.seen & chosen(pods, turns=turns).seen
