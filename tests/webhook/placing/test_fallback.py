"""Placing while the controller is away: by capacity where it is known, never a guess where it is not."""

import msgspec
import pytest

from kube.scheduling import Constraints
from ledger.from_kubernetes import node_from_object
from ledger.ledger import Ledger
from ledger.messages import NodeState, StreamEvent
from ledger.placement_request import Assumption, OverQuota, Placement, Quota
from ledger.view import PendingView
from modes.facts import NodeFact, PodFact
from modes.fraction import Fraction
from modes.mig_profiles import A30
from modes.resource_names import ResourceNames
from modes.units import profile_of_resource
from tests.ledger.cluster import gpu_node, holder, request_of
from tests.webhook.support.bounded_work import Lines
from webhook.admission.denial import Reason
from webhook.placing.fallback import Fallback
from webhook.placing.placer import Unanswered

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
    return PodFact(namespace="team", name=name, node=on, takes=((index, slices),), cpu_milli=1000)


def report(fallback, nodes, backlog=()):
    """Deliver a whole stream's beginning."""
    fallback.begin_stream()
    for state in nodes.values():
        fallback.take(StreamEvent(node=state))
    fallback.take(StreamEvent(backlog=tuple(backlog)))
    fallback.take(StreamEvent(synced=True))


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


def test_cards_are_known_as_the_controller_said_that_agents_report_them(fallback):
    fact = NodeFact(name="m", labels={"nvidia.com/gpu.product": "B300"}, pooled_gpus=0, reported_mig=A30)
    fact = msgspec.structs.replace(
        fact, instances=((profile_of_resource("nvidia.com/mig-1g.6gb").number, 4),)
    )
    ledger = Ledger()
    ledger.replace([fact], [])
    line = msgspec.json.encode(NodeState(fact, ledger.node("m"), *ledger.room("m")))
    report(fallback, {"m": msgspec.json.decode(line, type=NodeState)})
    assert fallback.mig_cards() == {"B300": A30}


def test_pods_go_where_the_last_snapshot_has_room(fallback):
    report(fallback, {"a": node("a", pod("x", "a", 0, 7))})
    assert placed(fallback.place(request_of(HALF))) == ("a", (1,))
    assert fallback.used() == 7


def test_what_is_placed_here_takes_room_for_as_long_as_nobody_tells_of_it(fallback, clock):
    report(fallback, {"a": node("a", gpus=1)})
    assert placed(fallback.place(request_of(Fraction(7, 8), reservation="r"))) == ("a", (0,))
    assert placed(fallback.place(request_of(HALF))) == (None, (0,))
    clock.now = 600.0
    assert placed(fallback.place(request_of(HALF))) == (None, (0,))
    fallback.mark_live()
    assert placed(fallback.place(request_of(HALF))) == ("a", (0,))


def test_pods_that_wait_are_spread(fallback):
    full = node("a", pod("x", "a", 0, 8), pod("y", "a", 1, 8))
    report(fallback, {"a": full}, [PendingView("team", "w", "pod", (0,), 4)])
    indices = [placed(fallback.place(request_of(HALF, reservation=f"r{i}")))[1] for i in range(4)]
    assert indices == [(1,), (0,), (1,), (0,)]


def test_a_node_that_a_new_stream_does_not_deliver_is_gone_when_it_has_delivered_all(fallback):
    report(fallback, {"a": node("a"), "b": node("b")})
    fallback.begin_stream()
    fallback.take(StreamEvent(node=node("b")))
    assert fallback.nodes() == 2
    fallback.take(StreamEvent(synced=True))
    assert fallback.nodes() == 1


def test_the_first_pod_after_a_snapshot_waits_for_no_index_of_all_its_nodes(fallback):
    report(fallback, {f"n{number}": node(f"n{number}") for number in range(100)}, [])
    with Lines() as lines:
        fallback.place(request_of(HALF))
    assert lines.count < 2000


def test_changes_since_the_snapshot_count(fallback):
    report(fallback, {"a": node("a"), "b": node("b", pod("x", "b", 0, 8), pod("y", "b", 1, 8))}, [])
    fallback.set_node(node("a", pod("z", "a", 0, 8), pod("z2", "a", 1, 6)))
    assert placed(fallback.place(request_of(HALF))) == (None, (0,))
    fallback.set_node(node("b", pod("x", "b", 0, 8)))
    assert placed(fallback.place(request_of(HALF))) == ("b", (1,))
    assert fallback.nodes() == 2
    fallback.remove_node("b")
    assert (fallback.used(), fallback.nodes()) == (14, 1)


def test_without_any_snapshot_only_an_assumption_places(fallback):
    assert placed(fallback.place(request_of(HALF, assume=Assumption(2, 40960)))) == (None, (0,))
    answer = fallback.place(request_of(HALF))
    assert isinstance(answer, Unanswered)
    assert answer.reason is Reason.NO_CONTROLLER


def test_a_pod_that_no_known_node_could_ever_hold_is_denied_while_the_controller_is_away(fallback):
    report(fallback, {"a": node("a")})
    answer = fallback.place(request_of(HALF, constraints=Constraints(node_selector={"zone": "x"})))
    assert type(answer).__name__ == "Unschedulable"


def test_a_quota_denies_unless_the_policy_admits(fallback):
    report(fallback, {"a": node("a")}, [])
    quotas = (Quota("queue", "train", slices=1),)
    answer = fallback.place(request_of(HALF, quotas=quotas))
    assert answer == Unanswered(
        Reason.QUOTA_UNKNOWN,
        'quota of queue "train" cannot be counted while the controller is away: try again',
    )
    assert placed(fallback.place(request_of(HALF, quotas=quotas, quotas_when_degraded="admit"))) == (
        "a",
        (0,),
    )


def test_where_the_policy_says_so_a_pod_waits_for_the_controller_and_takes_no_room(fallback):
    report(fallback, {"a": node("a")}, [])
    quotas = (Quota("queue", "train", slices=8),)
    request = request_of(HALF, quotas=quotas, waits_when_degraded=True, reservation="r")
    answer = fallback.place(request)
    assert (answer.waits_for_quota, answer.degraded, answer.node) == (True, True, None)
    on_node = msgspec.structs.replace(request.demands, constraints=Constraints(node_name="a"))
    answer = fallback.place(msgspec.structs.replace(request, demands=on_node))
    assert isinstance(answer, Unanswered), "Kubernetes allows it no gate"


@pytest.mark.parametrize(
    "quota", [Quota("namespace", "ml", **{unit: 0}) for unit in ("slices", "max_pods", "memory_mib")]
)
def test_what_is_shut_stays_shut_though_nobody_can_count(fallback, quota):
    request = request_of(Fraction(4, 8), quotas=(quota,), quotas_when_degraded="admit")
    answer = fallback.place(request)
    assert isinstance(answer, OverQuota)
    assert answer.limit == 0


def test_a_stream_that_is_not_whole_yet_says_nothing_of_what_was_placed_here(fallback, clock):
    report(fallback, {"a": node("a", gpus=1)})
    fallback.place(request_of(HALF, reservation="r"))
    clock.now = 600.0
    fallback.begin_stream()
    fallback.take(StreamEvent(node=node("a", gpus=1)))
    fallback.mark_live()
    assert fallback.used() == 4
    fallback.take(StreamEvent(synced=True))
    fallback.mark_live()
    assert fallback.used() == 0


def test_other_resources_are_counted_by_the_last_snapshot():
    fact, fallback, ledger = gpu_node("n", extended={"rdma/hca": 1}), Fallback(Clock()), Ledger()
    ledger.replace([fact], [holder("other", "n", extended=(("rdma/hca", 1),))])
    report(fallback, {"n": NodeState(fact, ledger.node("n"), *ledger.room("n"))})
    assert placed(fallback.place(request_of(Fraction(4, 8), extended=(("rdma/hca", 1),))))[0] is None
