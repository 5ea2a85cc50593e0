"""Decisions one after the other: turns, what is not used, and more namespaces than one step looks at."""

from controller.geometry.demand import Demand
from controller.geometry.model import MigNode
from controller.geometry.planner import MAX_REQUESTS
from controller.geometry.turns import FIRST_DEFERRAL_SECONDS, USE_SECONDS
from modes.mig_profiles import A100_40GB
from tests.controller.geometry.waiting import asking, offer, pod

SEVEN = ("1g.5gb",) * 7
STEP_S = 2


def node(name="n0", *cards, **more):
    return MigNode(name, A100_40GB, cards or (SEVEN,), **more)


IDLE = (node(),)


def decide(demand, pods, nodes=IDLE, now=0.0, offers=None):
    waiting = {each.mig.uid: each for each in pods}
    return demand.decide(waiting, offers or [offer(each.name) for each in nodes], nodes, now)


def test_pods_that_are_recreated_again_and_again_hold_instances_back_for_a_minute():
    demand = Demand()
    large = pod("large", "7g.40gb", namespace="modest", created="2")
    for now in range(0, int(3 * USE_SECONDS), STEP_S):
        small = pod(f"small-{now // 20}", "1g.5gb", namespace="greedy", created="1")
        changes = decide(demand, [small, large], now=float(now)).plan.changes
        if changes:
            break
    assert [change.request for change in changes] == [("modest", "large")]
    assert now <= USE_SECONDS + STEP_S


def test_namespaces_that_hold_instances_back_by_turns_do_not_stay_first():
    """Each has a pod for less than a minute at a time, and the other one's turn was longer ago."""
    demand = Demand()
    large = pod("large", "7g.40gb", namespace="modest", created="2")
    decide(demand, [large])
    for now in range(STEP_S, int(4 * USE_SECONDS), STEP_S):
        number = now // 40
        small = pod(f"small-{number}", "1g.5gb", namespace=f"greedy-{number % 2}", created="1")
        changes = decide(demand, [small, large], now=float(now)).plan.changes
        if changes:
            break
    assert [change.request for change in changes] == [("modest", "large")]


def test_a_pod_that_did_not_use_what_was_free_is_left_alone_for_a_while():
    demand, waits = Demand(), pod("waits", "1g.5gb")
    assert decide(demand, [waits]).plan.set_aside
    assert decide(demand, [waits], now=USE_SECONDS).deferred == ("uid-waits",)
    other = [node("n0", ("7g.40gb",))]
    assert not decide(demand, [waits], other, USE_SECONDS + STEP_S).plan.changes
    over = USE_SECONDS + FIRST_DEFERRAL_SECONDS
    assert decide(demand, [waits], other, over).plan.changes


def test_of_more_namespaces_than_one_step_looks_at_each_is_looked_at():
    """All but one wait for a node that is in use, for as long as that may take."""
    busy = node("busy", SEVEN, held={"1g.5gb": 7})
    offers = [offer("busy", disk="fast"), offer("n0")]
    only_busy = asking("disk", "fast")
    pods = [
        pod(f"p{number}", "7g.40gb", namespace=f"ns{number:03}", created="1", constraints=only_busy)
        for number in range(3 * MAX_REQUESTS)
    ]
    pods.append(pod("p", "7g.40gb", namespace="zz", created="2"))
    demand = Demand()
    for now in range(8):
        changes = decide(demand, pods, (busy, node()), float(now), offers).plan.changes
        if changes:
            break
    assert [change.request for change in changes] == [("zz", "p")]
    assert now <= 4


def test_two_namespaces_that_ask_for_incompatible_divisions_are_served_in_turn():
    demand, served = Demand(), []
    cards = SEVEN
    for now in range(6):
        # Each has more pods than can ever be served, the one's all older.
        want = "7g.40gb" if cards == SEVEN else "1g.5gb"
        pods = [pod(f"a{i}", want, namespace="a", created="1") for i in range(9)]
        pods += [pod(f"b{i}", want, namespace="b", created="2") for i in range(9)]
        (change,) = decide(demand, pods, (node("n0", cards),), float(now)).plan.changes
        served.append(change.request[0])
        cards = change.geometry
    assert served == ["a", "b"] * 3
