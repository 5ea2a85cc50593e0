"""When a waiting pod may be deleted: the pace, and the backoff of an owner whose pods wait again."""

import msgspec
import pytest

from controller.replace.replacement_pace import (
    LOOK_AGAIN_SECONDS,
    MAX_PAUSE_SECONDS,
    SECONDS_BETWEEN,
    SECONDS_BETWEEN_IN_NAMESPACE,
    ReplacementPlan,
    WaitingPod,
    waits_replaceably,
)
from controller.watch.resources import InjectedPod, Owner, SeenPod
from modes.facts import PodFact
from modes.units import POOL

OWNER = Owner(api_version="apps/v1", kind="ReplicaSet", name="web", uid="rs-1", controller=True)
INJECTED = InjectedPod(
    uid="u", asked="0.500", injected="default@1", slices="4", gpu_index="1", lacks_slices=True, owner=OWNER
)


def seen(*, injected=None, **fact):
    given = msgspec.structs.replace(INJECTED, **injected) if injected is not None else INJECTED
    return SeenPod(PodFact(**{"namespace": "team", "name": "a", "takes": ((1, 4),), **fact}), given)


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_waiting_pod_of_a_known_controller_may_be_replaced(kind):
    owner = msgspec.structs.replace(OWNER, kind=kind)
    assert waits_replaceably(seen(injected={"owner": owner})) == owner


@pytest.mark.parametrize(
    "pod",
    [
        seen(injected={"owner": None}),
        seen(
            injected={
                "owner": Owner(api_version="batch/v1", kind="Job", name="train", uid="job-1", controller=True)
            }
        ),
        seen(
            injected={
                "owner": Owner(
                    api_version="example.com/v1", kind="ReplicaSet", name="own", uid="x", controller=True
                )
            }
        ),
        seen(injected={"lacks_slices": False}),
        seen(injected={"injected": None}),
        seen(injected={"slices": "2"}),
        seen(injected={"gpu_index": "0"}),
        seen(node="gpu-0"),
        seen(is_over=True),
        seen(takes=((POOL, 4),)),
        SeenPod(PodFact(namespace="team", name="a", takes=((1, 4),)), None),
    ],
)
def test_any_other_pod_is_left(pod):
    assert waits_replaceably(pod) is None


def waiting(uid, *, owner=None, namespace="team", after=10.0):
    return WaitingPod((namespace, uid), uid, owner or f"owner of {uid}", after)


def uids(pods):
    return [pod.uid for pod in pods]


def test_a_pod_is_due_when_it_has_waited_for_its_time():
    plan, pod = ReplacementPlan(), waiting("a")
    assert plan.due([pod], 100.0) == []
    assert plan.due([pod], 109.9) == []
    assert plan.due([pod], 110.0) == [pod]
    assert plan.waited(pod, 110.0) == 10.0


def test_a_pod_that_did_not_wait_in_between_begins_again():
    plan, pod = ReplacementPlan(), waiting("a")
    plan.due([pod], 100.0)
    plan.due([], 105.0)
    assert plan.due([pod], 111.0) == []
    assert plan.due([pod], 121.0) == [pod]


def test_one_that_was_looked_at_lets_others_go_first():
    plan, pods = ReplacementPlan(), [waiting("a"), waiting("b")]
    plan.due(pods, 0.0)
    assert uids(plan.due(pods, 10.0)) == ["a", "b"]
    plan.looked_at(pods[0], 10.0)
    assert uids(plan.due(pods, 12.0)) == ["b"]
    assert uids(plan.due(pods, 10.0 + LOOK_AGAIN_SECONDS)) == ["b", "a"]


def test_namespaces_take_turns_however_many_pods_one_has():
    plan = ReplacementPlan()
    pods = [*(waiting(f"a{number}") for number in range(100)), waiting("z", namespace="zoo")]
    plan.due(pods, 0.0)
    assert uids(plan.due(pods, 10.0))[:2] == ["a0", "a1"]
    for pod in pods[:64]:
        plan.looked_at(pod, 10.0)
    assert uids(plan.due(pods, 12.0))[:2] == ["z", "a64"]


def test_replacements_are_paced_in_all_and_in_a_namespace():
    plan = ReplacementPlan()
    pods = [waiting("a"), waiting("b"), waiting("c", namespace="other")]
    plan.due(pods, 0.0)
    plan.replaced(pods[0], 10.0)
    rest = pods[1:]
    assert plan.due(rest, 10.0 + SECONDS_BETWEEN - 0.1) == []
    assert uids(plan.due(rest, 10.0 + SECONDS_BETWEEN)) == ["c"]
    assert uids(plan.due(rest, 10.0 + SECONDS_BETWEEN_IN_NAMESPACE)) == ["c", "b"]


def first_time_due(plan, pod, now):
    """Seconds until a pod that begins to wait now may be replaced."""
    plan.due([pod], now)
    for seconds in range(1, 10_000):
        if plan.due([pod], now + seconds):
            return seconds
    raise AssertionError("never due")


def test_an_owner_whose_new_pods_wait_again_waits_longer_each_time_up_to_an_hour():
    plan, now, pauses = ReplacementPlan(), 1000.0, []
    for number in range(12):
        pod = waiting(f"pod-{number}", owner="set")
        seconds = first_time_due(plan, pod, now + 1) + 1
        pauses.append(seconds)
        now += seconds
        plan.replaced(pod, now)
    assert pauses == [11, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]
    assert pauses[-1] == MAX_PAUSE_SECONDS


def test_an_owner_whose_new_pod_runs_is_not_held_back():
    plan = ReplacementPlan()
    pods = [waiting(f"pod-{number}", owner="set") for number in range(3)]
    plan.due(pods, 0.0)
    for number, now in enumerate((10.0, 20.0, 30.0)):
        assert uids(plan.due(pods[number:], now)) == uids(pods[number:])
        plan.replaced(pods[number], now)


def test_nothing_is_due_while_all_is_held():
    plan, pod = ReplacementPlan(), waiting("a")
    plan.due([pod], 0.0)
    plan.hold(60.0)
    plan.hold(30.0)
    assert plan.due([pod], 59.0) == []
    assert plan.due([pod], 60.0) == [pod]


def test_what_is_kept_goes_when_it_delays_nobody():
    plan = ReplacementPlan()
    for number in range(100):
        pod, now = waiting(f"pod-{number}", namespace=f"team-{number}"), number * 20.0
        plan.due([pod], now)
        plan.replaced(pod, now + 10)
    plan.due([], 1e6)
    assert not any((plan._since, plan._looked, plan._looked_in, plan._owners, plan._namespaces))
