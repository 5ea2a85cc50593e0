"""Placing while the controller is away: by capacity where it is known, never a guess where it is not."""

import msgspec
import pytest

from kube.names import GPU_PRODUCT_LABEL
from kube.scheduling import Constraints
from ledger.messages import NodeState, StreamEvent
from ledger.placement_request import Assumption, OverQuota, Placement, Quota, Unschedulable
from ledger.view import PendingView
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.mig_profiles import A30
from modes.units import profile_of_resource
from tests.ledger.cluster import gpu_node, holder, ledger_of, request_of
from tests.webhook.support.bounded_work import Lines
from webhook.admission.denial import Reason
from webhook.placing.fallback import Fallback
from webhook.placing.placer import Unanswered

HALF = request_of(Fraction(4, 8))


def state(fact, *pods):
    """A node as a controller streams it."""
    ledger = ledger_of(fact, holders=pods)
    return NodeState(fact, ledger.node(fact.name), *ledger.room(fact.name))


def node(name, *used, gpus=2):
    """A node with a pod that uses some slices of its GPUs."""
    fact = gpu_node(name, gpus, cpu_milli=64_000, memory_bytes=2**38)
    return state(fact, holder("x", name, *used, cpu_milli=1000))


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def fallback(clock):
    return Fallback(lambda: clock[0])


def report(fallback, *nodes, backlog=()):
    """Deliver a whole stream's beginning."""
    fallback.begin_stream()
    for each in nodes:
        line = msgspec.json.encode(each)
        fallback.take(StreamEvent(node=msgspec.json.decode(line, type=NodeState)))
    fallback.take(StreamEvent(backlog=tuple(backlog)))
    fallback.take(StreamEvent(synced=True))


def placed(fallback, slices=4, **fields):
    answer = fallback.place(request_of(Fraction(slices, 8), **fields))
    assert isinstance(answer, Placement)
    assert answer.degraded
    return answer.node, answer.indices


def test_cards_are_known_as_the_controller_said_that_agents_report_them(fallback):
    one = profile_of_resource("nvidia.com/mig-1g.6gb").number
    labels = {GPU_PRODUCT_LABEL: "B300"}
    fact = NodeFact(name="m", labels=labels, pooled_gpus=0, reported_mig=A30, instances=((one, 4),))
    report(fallback, state(fact))
    assert fallback.mig_cards() == {"B300": A30}


def test_what_is_placed_here_takes_room_for_as_long_as_nobody_tells_of_it(fallback, clock):
    report(fallback, node("a", gpus=1))
    assert placed(fallback, 7, reservation="r") == ("a", (0,))
    clock[0] = 600.0
    assert placed(fallback) == (None, (0,))
    fallback.mark_live()
    assert placed(fallback) == ("a", (0,))


def test_pods_that_wait_are_spread(fallback):
    report(fallback, node("a", (0, 8), (1, 8)), backlog=[PendingView("team", "w", "pod", (0,), 4)])
    indices = [placed(fallback, reservation=f"r{number}")[1] for number in range(4)]
    assert indices == [(1,), (0,), (1,), (0,)]


def test_a_node_that_a_new_stream_does_not_deliver_is_gone_when_it_has_delivered_all(fallback):
    report(fallback, node("a"), node("b"))
    fallback.begin_stream()
    fallback.take(StreamEvent(node=node("b")))
    assert fallback.nodes() == 2
    fallback.take(StreamEvent(synced=True))
    assert fallback.nodes() == 1


def test_the_first_pod_after_a_snapshot_waits_for_no_index_of_all_its_nodes(fallback):
    report(fallback, *[node(f"n{number}") for number in range(100)])
    with Lines() as lines:
        fallback.place(HALF)
    assert lines.count < 2000


def test_changes_since_the_snapshot_count(fallback):
    report(fallback, node("a"), node("b", (0, 8), (1, 8)))
    fallback.set_node(node("a", (0, 8), (1, 6)))
    assert placed(fallback) == (None, (0,))
    fallback.set_node(node("b", (0, 8)))
    assert placed(fallback) == ("b", (1,))
    fallback.remove_node("b")
    assert (fallback.used(), fallback.nodes()) == (14, 1)


def test_without_any_snapshot_only_an_assumption_places(fallback):
    assert placed(fallback, assume=Assumption(2, 40960)) == (None, (0,))
    assert fallback.place(HALF).reason is Reason.NO_CONTROLLER


def test_a_pod_that_no_known_node_could_ever_hold_is_denied_while_the_controller_is_away(fallback):
    report(fallback, node("a"))
    elsewhere = Constraints(node_selector={"zone": "x"})
    assert isinstance(fallback.place(HALF.with_demands(constraints=elsewhere)), Unschedulable)


def test_a_quota_denies_unless_the_policy_admits(fallback):
    report(fallback, node("a"))
    quotas = (Quota("queue", "train", slices=1),)
    assert fallback.place(request_of(Fraction(4, 8), quotas=quotas)) == Unanswered(
        Reason.QUOTA_UNKNOWN,
        'quota of queue "train" cannot be counted while the controller is away: try again',
    )
    assert placed(fallback, quotas=quotas, quotas_when_degraded="admit") == ("a", (0,))


def test_where_the_policy_says_so_a_pod_waits_for_the_controller_and_takes_no_room(fallback):
    report(fallback, node("a"))
    quotas = (Quota("queue", "train", slices=8),)
    request = request_of(Fraction(4, 8), quotas=quotas, waits_when_degraded=True, reservation="r")
    answer = fallback.place(request)
    assert (answer.waits_for_quota, answer.degraded, answer.node) == (True, True, None)
    answer = fallback.place(request.with_demands(constraints=Constraints(node_name="a")))
    assert isinstance(answer, Unanswered), "Kubernetes allows it no gate"


@pytest.mark.parametrize("unit", ["slices", "max_pods", "memory_mib"])
def test_what_is_shut_stays_shut_though_nobody_can_count(fallback, unit):
    quotas = (Quota("namespace", "ml", **{unit: 0}),)
    answer = fallback.place(request_of(Fraction(4, 8), quotas=quotas, quotas_when_degraded="admit"))
    assert isinstance(answer, OverQuota)
    assert answer.limit == 0


def test_a_stream_that_is_not_whole_yet_says_nothing_of_what_was_placed_here(fallback, clock):
    report(fallback, node("a", gpus=1))
    placed(fallback, reservation="r")
    clock[0] = 600.0
    fallback.begin_stream()
    fallback.take(StreamEvent(node=node("a", gpus=1)))
    fallback.mark_live()
    assert fallback.used() == 4
    fallback.take(StreamEvent(synced=True))
    fallback.mark_live()
    assert fallback.used() == 0


def test_other_resources_are_counted_by_the_last_snapshot(fallback):
    nic = {"extended": (("rdma/hca", 1),)}
    report(fallback, state(gpu_node("n", extended={"rdma/hca": 1}), holder("other", "n", **nic)))
    assert placed(fallback, **nic)[0] is None
