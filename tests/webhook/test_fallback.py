"""Placing while the controller is away: by capacity where it is known, never a guess where it is not."""

import pytest

from ledger.ask import Ask, Assumption, OverQuota, Placement, Quota
from ledger.constraints import Constraints
from ledger.decoding import node_from_object
from ledger.facts import PodFact
from ledger.fraction import Fraction
from ledger.ledger import Ledger
from ledger.resource_names import ResourceNames
from ledger.view import Waiting
from ledger.wire import NodeState
from webhook.fallback import Fallback
from webhook.placer import Unanswered
from webhook.reasons import Reason

HALF = Fraction(4, 8)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def node(name, *pods, gpus=2):
    """A node as the controller streams it, with pods on it."""
    amounts = {"cpu": "64", "memory": "256Gi"} | {f"nvidia.com/gpu-{i}": "8" for i in range(gpus)}
    labels = {"nvidia.com/gpu.memory": "81920"}
    raw = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}}
    fact = node_from_object(raw, ResourceNames())
    ledger = Ledger()
    ledger.replace([fact], pods)
    return NodeState(fact, ledger.node(name), *ledger.room(name))


def pod(name, on, index, slices):
    return PodFact(namespace="team", name=name, node=on, gpus=((index, slices),), cpu_milli=1000)


def placed(answer):
    assert isinstance(answer, Placement)
    assert answer.degraded
    return answer.node, answer.indices


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fallback(clock):
    return Fallback(clock)


def test_pods_go_where_the_last_snapshot_has_room(fallback):
    fallback.replace({"a": node("a", pod("x", "a", 0, 7))}, [])
    assert placed(fallback.place(Ask(HALF))) == ("a", (1,))
    assert fallback.used() == 7


def test_what_is_placed_here_takes_room_until_its_time_is_over(fallback, clock):
    fallback.replace({"a": node("a", gpus=1)}, [])
    assert placed(fallback.place(Ask(Fraction(7, 8), reservation="r"))) == ("a", (0,))
    assert placed(fallback.place(Ask(HALF))) == (None, (0,))
    clock.now = 30.0
    assert placed(fallback.place(Ask(HALF))) == ("a", (0,))


def test_what_is_given_back_leaves_room(fallback):
    fallback.replace({"a": node("a", gpus=1)}, [])
    fallback.place(Ask(Fraction(7, 8), reservation="r"))
    fallback.release("r")
    assert placed(fallback.place(Ask(HALF))) == ("a", (0,))


def test_changes_since_the_snapshot_count(fallback):
    fallback.replace({"a": node("a"), "b": node("b", pod("x", "b", 0, 8), pod("y", "b", 1, 8))}, [])
    fallback.set_node(node("a", pod("z", "a", 0, 8), pod("z2", "a", 1, 6)))
    assert placed(fallback.place(Ask(HALF))) == (None, (0,))
    fallback.set_node(node("b", pod("x", "b", 0, 8)))
    assert placed(fallback.place(Ask(HALF))) == ("b", (1,))
    assert fallback.nodes() == 2
    fallback.remove_node("b")
    assert (fallback.used(), fallback.nodes()) == (14, 1)


def test_who_waits_makes_others_wait_elsewhere(fallback):
    full = node("a", pod("x", "a", 0, 8), pod("y", "a", 1, 8))
    fallback.replace({"a": full}, [Waiting("team", "w", "pod", (0,), 4)])
    assert placed(fallback.place(Ask(HALF))) == (None, (1,))
    fallback.set_backlog([Waiting("team", "v", "pod", (1,), 4)])
    assert placed(fallback.place(Ask(HALF))) == (None, (0,))


def test_without_any_snapshot_only_an_assumption_places(fallback):
    assert placed(fallback.place(Ask(HALF, assume=Assumption(2, 40960)))) == (None, (0,))
    answer = fallback.place(Ask(HALF))
    assert isinstance(answer, Unanswered)
    assert answer.reason is Reason.NO_CONTROLLER


def test_a_static_misfit_with_every_known_node_stays_one(fallback):
    fallback.replace({"a": node("a")}, [])
    answer = fallback.place(Ask(HALF, constraints=Constraints(node_selector={"zone": "x"})))
    assert type(answer).__name__ == "Misfit"


def test_a_quota_denies_unless_the_policy_admits(fallback):
    fallback.replace({"a": node("a")}, [])
    quotas = (Quota("queue", "train", slices=1),)
    answer = fallback.place(Ask(HALF, quotas=quotas))
    assert answer == Unanswered(
        Reason.QUOTA_UNKNOWN,
        'quota of queue "train" cannot be counted while the controller is away: try again',
    )
    assert placed(fallback.place(Ask(HALF, quotas=quotas, quotas_when_degraded="admit"))) == ("a", (0,))


@pytest.mark.parametrize("quota", [Quota("namespace", "ml", slices=0), Quota("namespace", "ml", max_pods=0)])
def test_what_is_shut_stays_shut_though_nobody_can_count(fallback, quota):
    ask = Ask(Fraction(4, 8), quotas=(quota,), quotas_when_degraded="admit")
    answer = fallback.place(ask)
    assert isinstance(answer, OverQuota)
    assert answer.limit == 0
