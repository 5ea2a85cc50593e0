"""Which waiting pods may go, and in what order: compared with a plain walk over all of them."""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.ledger import Ledger
from ledger.placement_request import OverQuota, Placement, Quota
from ledger.quota_line import GROUPS_OF_A_PLACE
from modes.facts import PodFact, QuotaWait
from tests.ledger import cluster
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of

RED = Quota("namespace", "red", slices=8)
ONE, TWO = Quota("queue", "one", slices=4), Quota("queue", "two", max_pods=2)


def quotas_of(namespace: str, queues: tuple[str, ...]) -> tuple[Quota, ...]:
    of_queues = {"one": ONE, "two": TWO}
    return (*((RED,) if namespace == "red" else ()), *(of_queues[queue] for queue in queues))


def waiting(
    name: str, slices: int = 4, priority: int = 0, since: int = 0, *queues: str, namespace: str = "red"
) -> PodFact:
    wait = QuotaWait(uid=name, priority=priority, since=f"2026-01-01T00:00:{since:02}Z")
    return holder(name, None, (0, slices), namespace=namespace, queues=queues, quota_wait=wait)


def let_go(ledger: Ledger) -> list[str]:
    gone = []
    for pod in ledger.line.due(quotas_of, "policies"):
        if pod is not None:
            gone.append(pod.name)
            ledger.set_pod(holder(pod.name, None, *pod.takes, namespace=pod.namespace, queues=pod.queues))
    return gone


def test_pods_go_by_priority_then_by_age_as_far_as_the_quota_goes() -> None:
    pods = (waiting("old", 4, 0, 1), waiting("older", 4, 0, 0), waiting("urgent", 4, 9, 2))
    ledger = ledger_of(gpu_node("a"), holders=pods)
    assert let_go(ledger) == ["urgent", "older"]
    assert not ledger.line.has_changed("policies") or let_go(ledger) == []
    ledger.remove_pod(("red", "older"))
    assert ledger.line.has_changed("policies")
    assert let_go(ledger) == ["old"]


def test_a_pod_that_is_larger_than_its_quota_stops_nobody() -> None:
    ledger = ledger_of(gpu_node("a"), holders=(waiting("huge", 9, 9), waiting("fits", 8, 0, 1)))
    assert let_go(ledger) == ["fits"]
    assert ledger.line.place_text(("red", "huge"), quotas_of) == (
        "1 of 1 in the line of the quota of namespace red: it needs 9 slices, but the quota is only 8, "
        "so it never starts"
    )


def test_a_pod_with_other_gates_or_being_deleted_neither_goes_nor_counts_nor_stops_others() -> None:
    kept = holder(
        "kept", None, (0, 8), namespace="red", quota_wait=QuotaWait("kept", 9, "", 1, is_next=False)
    )
    ledger = ledger_of(gpu_node("a"), holders=(kept, waiting("next", 8)))
    assert ledger.used_of(RED).slices == 0
    assert let_go(ledger) == ["next"]


def test_no_pod_goes_while_the_policies_are_unknown() -> None:
    ledger = ledger_of(gpu_node("a"), holders=(waiting("a"),))
    assert list(ledger.line.due(lambda _namespace, _queues: None, None)) == []
    assert let_go(ledger) == ["a"], "as soon as they are known"


def test_a_quota_that_grows_shrinks_or_goes_is_applied_the_next_time() -> None:
    ledger = ledger_of(gpu_node("a"), holders=(waiting("a", 8), waiting("b", 8, 0, 1), waiting("c", 8, 0, 2)))
    assert let_go(ledger) == ["a"]
    larger = Quota("namespace", "red", slices=16)
    assert ledger.line.has_changed("larger")
    [pod, *_] = [pod for pod in ledger.line.due(lambda *_: (larger,), "larger") if pod is not None]
    assert pod.name == "b"
    assert [pod.name for pod in ledger.line.due(lambda *_: (), "none") if pod is not None] == ["b"]


def test_places_and_lengths_are_those_of_the_line_that_lacks_room() -> None:
    runs = holder("runs", "a", (0, 8), namespace="red")
    ledger = ledger_of(gpu_node("a"), holders=(runs, *(waiting(f"p-{n}", 1 + n, 0, n) for n in range(3))))
    let_go(ledger)
    assert ledger.line.place_text(("red", "p-1"), quotas_of) == (
        "2 of 3 in the line of the quota of namespace red: 8 of 8 slices are used, it needs 2"
    )
    assert ledger.line.lengths(quotas_of) == {RED: 3}
    assert ledger.line.place_text(("red", "runs"), quotas_of) is None


# What a new pod gets.

ASKED = {"namespace": "red", "quotas": (RED,), "when_over_quota": "wait"}


def opened(*pods: PodFact) -> Ledger:
    ledger = ledger_of(gpu_node("a"), holders=pods)
    let_go(ledger)
    ledger.line.state = "open"
    return ledger


def placed(ledger: Ledger, slices: int, **fields: object) -> Placement:
    return cluster.placed(ledger, eighths(slices, **(ASKED | fields)))


def test_the_place_of_a_pod_among_any_number_of_groups_is_found_in_bounded_steps() -> None:
    groups = 3 * GROUPS_OF_A_PLACE
    pods = tuple([waiting(f"p-{n:04}", 1, 0, n % 60, f"queue-{n}") for n in range(groups)])
    ledger = ledger_of(gpu_node("a"), holders=pods)
    before = ledger.line.steps
    place = ledger.line.place_text(pods[-1].key, lambda *_: (RED,))
    assert ledger.line.steps - before <= GROUPS_OF_A_PLACE + 1
    assert " or later of 257 or more in the line of the quota of namespace red: " in (place or "")


def test_a_pod_over_its_quota_waits_at_an_index_without_a_node_and_without_counting() -> None:
    ledger = opened(holder("runs", "a", (0, 6), namespace="red"))
    answer = placed(ledger, 4, reservation="r")
    assert (answer.waits_for_quota, answer.node) == (True, None)
    assert (ledger.used_of(RED).slices, ledger.pending_slices()) == (6, 4)
    other = placed(ledger, 4, reservation="s")
    assert {*answer.indices, *other.indices} == {0, 1}, "the index with the shortest queue"


@pytest.mark.parametrize("existing", [None, Placement((0,), 81920, ("81920",))], ids=["new", "copied"])
def test_what_no_quota_can_ever_hold_is_denied(existing: Placement | None) -> None:
    asked = ASKED | {"quotas": (Quota("namespace", "red", slices=4),), "existing": existing}
    answer = opened().place(eighths(7, **asked), 0.0)
    assert isinstance(answer, OverQuota)
    assert (answer.asked, answer.limit) == (7, 4)


def test_a_later_pod_waits_behind_the_one_that_closed_the_line_at_once_unless_that_was_a_dry_run() -> None:
    ledger = opened(holder("runs", "a", (0, 6), namespace="red"))
    blue = {"namespace": "blue", "quotas": (Quota("namespace", "blue", slices=1),)}
    for review, waits in ((None, False), ("r", True)):
        assert placed(ledger, 4, reservation=review).waits_for_quota
        assert placed(ledger, 1).waits_for_quota is waits
        assert not placed(ledger, 1, **blue).waits_for_quota


@pytest.mark.parametrize(
    ("state", "changes", "waits"),
    [
        ("settling", {}, True),
        ("settling", {"quotas": ()}, False),
        ("settling", {"when_over_quota": "deny"}, False),
        ("off", {}, False),
    ],
    ids=["a new leader does not know the line", "no quota", "pods that may not wait", "nobody removes gates"],
)
def test_before_the_line_is_known_every_pod_that_may_wait_waits(state, changes, waits) -> None:
    ledger = opened()
    ledger.line.state = state
    assert placed(ledger, 1, **changes).waits_for_quota is waits


def test_where_nobody_removes_gates_pods_over_a_quota_are_denied() -> None:
    ledger = opened(holder("runs", "a", (0, 8), namespace="red"))
    ledger.line.state = "off"
    assert isinstance(ledger.place(eighths(1, **ASKED), 0.0), OverQuota)


def test_a_pod_that_lost_its_gate_to_another_webhook_waits_again_and_a_dry_run_ends_no_reservation() -> None:
    ledger = opened(holder("runs", "a", (0, 8), namespace="red"))
    first = placed(ledger, 1, reservation="r", pod="p")
    ungated = {"existing": msgspec.structs.replace(first, waits_for_quota=False), "pod": "p"}
    for review in (None, "s"):
        assert placed(ledger, 1, reservation=review, **ungated).waits_for_quota
        assert (ledger.pending_slices(), ledger.reservations) == (1, 1)


def test_room_that_is_kept_for_the_first_of_another_line_is_not_given_away() -> None:
    runs = holder("runs", "a", (0, 4), namespace="blue", queues=("one",))
    ledger = opened(runs, waiting("first", 4, 0, 0, "one"))
    assert not placed(ledger, 4).waits_for_quota
    assert placed(ledger, 5).waits_for_quota


def test_a_namespace_keeps_no_room_in_a_shared_quota_where_the_caller_says_so() -> None:
    full = holder("runs", "a", (0, 8), namespace="red")
    ledger = ledger_of(gpu_node("a"), holders=(full, waiting("first", 4, 0, 0, "one")))
    ledger.set_pod(waiting("other", 4, 0, 1, "one", namespace="blue"))
    assert let_go(ledger) == []
    assert ledger.line.keepers == {"red"}
    due = ledger.line.due(quotas_of, "later", without_room={"red"})
    assert [pod.name for pod in due if pod is not None] == ["other"]


def test_a_pod_that_is_gated_already_waits_whatever_has_room_and_counts_nowhere() -> None:
    ledger = opened()
    answer = placed(ledger, 4, is_gated=True, reservation="r", pod="p")
    assert answer.waits_for_quota
    again = placed(ledger, 4, is_gated=True, reservation="r2", pod="p", existing=answer)
    assert (again.indices, ledger.used_of(RED).slices, ledger.pending_slices()) == (answer.indices, 0, 4)


# Any number of pods, queues and sizes, against a walk over all pods.


def expected(pods: Iterable[PodFact]) -> list[str]:
    """The rule as its documentation states it."""
    used, closed, gone = {quota: [0, 0] for quota in (RED, ONE, TWO)}, set[Quota](), list[str]()

    def order(pod: PodFact) -> tuple[object, ...]:
        wait = pod.quota_wait
        return (wait is not None, *((-wait.priority, wait.since, pod.namespace, pod.name) if wait else ()))

    for pod in sorted(pods, key=order):
        quotas, lacking = quotas_of(pod.namespace, pod.queues), list[Quota]()
        if pod.quota_wait is not None:
            if any(quota in closed or (quota.slices or 99) < pod.slices for quota in quotas):
                continue
            for quota in quotas:
                slices, count = used[quota]
                if slices + pod.slices > (quota.slices or 99) or count >= (quota.max_pods or 99):
                    lacking.append(quota)
            closed |= {*lacking}
            gone += [] if lacking else [pod.name]
        for quota in quotas:
            if quota not in lacking:
                used[quota][0] += pod.slices
                used[quota][1] += 1
    return gone


@st.composite
def crowds(draw: st.DrawFn) -> list[PodFact]:
    pods = []
    for number in range(draw(st.integers(0, 14))):
        queues = draw(st.sampled_from([(), ("one",), ("two",), ("one", "two")]))
        namespace = draw(st.sampled_from(["red", "blue"]))
        slices = draw(st.sampled_from([1, 2, 4, 7]))
        pod = waiting(f"p-{number}", slices, draw(st.integers(0, 2)), draw(st.integers(0, 3)), *queues)
        gated = draw(st.booleans())
        fields = {"quota_wait": pod.quota_wait if gated else None}
        pods.append(holder(pod.name, None, (0, slices), namespace=namespace, queues=queues, **fields))
    return pods


@given(crowds())
def test_the_pods_that_go_are_those_of_the_rule(pods: list[PodFact]) -> None:
    ledger = ledger_of(gpu_node("a"), holders=tuple(pods))
    assert let_go(ledger) == expected(pods)
