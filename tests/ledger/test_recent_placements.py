"""Beyond the cap on reservations pods are still spread, and nothing of them stays."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from ledger.ledger import Ledger
from ledger.placement_request import OverQuota, Placement, Quota
from ledger.recent_placements import MAX_KINDS
from tests.ledger.cluster import eighths, gpu_node, holder
from tests.ledger.snapshot import books

NODES = 40
GPUS = 4


def capped(reservations: int = 2) -> Ledger:
    ledger = Ledger(reservations_per_namespace=reservations)
    for number in range(NODES):
        ledger.set_node(gpu_node(f"n{number}", GPUS))
    return ledger


def admit(ledger: Ledger, count: int, now: float = 0.0, **changes: object) -> list[Placement]:
    answers = [ledger.place(eighths(1, reservation=f"r{n}", **changes), now) for n in range(count)]
    return [answer for answer in answers if isinstance(answer, Placement)]


def places(answers: list[Placement]) -> Counter[tuple[str | None, tuple[int, ...]]]:
    return Counter((answer.node, answer.indices) for answer in answers)


def pod_of(answer: Placement, number: int, **changes: object) -> object:
    known = {"promised_node": answer.node, "reservation": answer.reservation} | changes
    return holder(f"p{number}", None, *[(index, 1) for index in answer.indices], **known)


def test_a_thousand_pods_of_one_namespace_take_a_thousand_places() -> None:
    ledger = capped(256)
    answers = admit(ledger, 1000)
    assert ledger.reservations == 256
    assert len({answer.reservation for answer in answers} - {None}) == 1000
    assert None not in {answer.node for answer in answers}
    assert max(places(answers).values()) == 8


def test_beyond_a_full_cluster_they_wait_for_all_indices_alike() -> None:
    ledger = capped()
    answers = admit(ledger, NODES * GPUS * 8 + 400)
    waiting = places([answer for answer in answers if answer.node is None])
    assert sum(waiting.values()) == 400
    assert set(waiting.values()) == {100}


@pytest.mark.parametrize("limit", [1, 5, 20])
def test_quotas_count_them(limit: int) -> None:
    ledger = capped()
    quotas = (Quota("namespace", "default", slices=limit), Quota("queue", "q", slices=limit, keys=("q",)))
    for quota in quotas:
        assert len(admit(ledger, 50, quotas=(quota,), queues=("q", "#id"))) == limit
        ledger.expire(100.0)
        ledger = capped()


def test_they_are_forgotten_after_a_while() -> None:
    ledger = capped()
    before = books(ledger)
    admit(ledger, 50)
    ledger.expire(9.9)
    assert books(ledger) != before
    ledger.expire(31.0)
    assert books(ledger) == before
    assert not list(ledger._recent.every())


def test_what_is_placed_all_the_time_is_never_booked_for_longer_than_ten_seconds() -> None:
    ledger = capped(0)
    for second in range(60):
        admit(ledger, 10, float(second))
        assert sum(many.pods for many in ledger._recent.every()) <= 100


def test_pods_that_show_up_take_their_own_place_and_count_once() -> None:
    ledger = capped()
    answers = admit(ledger, 50)
    for number, answer in enumerate(answers):
        ledger.set_pod(pod_of(answer, number))
    assert not list(ledger._recent.every())
    assert not len(ledger._reservations)
    quota = Quota("namespace", "default", slices=50)
    assert ledger.place(eighths(1, quotas=(quota,)), 0.0) == OverQuota(quota, 50, 1, 50, "slices")


@pytest.mark.parametrize("namespaces", [1, 3])
def test_a_second_review_of_each_counts_none_twice(namespaces: int) -> None:
    ledger = capped(256)
    for number in range(900):
        namespace = f"n{number % namespaces}"
        quota = Quota("namespace", namespace, slices=900 // namespaces)
        known = {"namespace": namespace, "pod": f"pod-{number}", "quotas": (quota,)}
        first = ledger.place(eighths(1, reservation=f"a{number}", **known), 0.0)
        assert isinstance(first, Placement)
        for review in (None, f"b{number}", f"b{number}"):  # a dry run, and one that comes twice
            assert ledger.place(eighths(1, reservation=review, existing=first, **known), 0.0) == first


def test_a_sum_vouches_once_and_for_its_own_pod() -> None:
    ledger = capped(0)
    quota = (Quota("namespace", "default", slices=1),)
    first = ledger.place(eighths(1, reservation="a", pod="own", quotas=quota), 0.0)
    assert isinstance(first, Placement)

    def again(review: str, pod: str = "own", **changes: object) -> bool:
        keeps = msgspec.structs.replace(first, **changes)
        answer = ledger.place(eighths(1, reservation=review, pod=pod, existing=keeps, quotas=quota), 0.0)
        return isinstance(answer, Placement)

    assert not again("b", pod="another")
    assert not again("c", reservation="another")
    assert not again("d", indices=(first.indices[0] + 1,))
    assert not again("e", reservation=None)
    assert again("f")
    assert not again("g")


def test_what_is_given_back_of_a_sum_is_free_again() -> None:
    ledger = capped(0)
    before = books(ledger)
    admit(ledger, 3)
    for number in range(3):
        ledger.release(f"r{number}")
        ledger.release(f"r{number}")
    assert books(ledger) == before


def test_the_same_ask_twice_is_booked_once() -> None:
    ledger = capped(0)
    admit(ledger, 3)
    admit(ledger, 3)
    assert sum(many.pods for many in ledger._recent.every()) == 3


def test_beyond_the_bound_on_names_pods_are_summed_up_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.recent_placements.MAX_NAMES", 10)
    ledger = capped(0)
    answers = admit(ledger, 15)
    assert [answer.reservation is None for answer in answers] == [False] * 10 + [True] * 5
    assert sum(many.pods for many in ledger._recent.every()) == 15
    for number, answer in enumerate(answers):
        ledger.set_pod(pod_of(answer, number))
    assert not list(ledger._recent.every())


def test_a_pod_without_a_name_takes_no_place_of_one_that_has_one() -> None:
    ledger = capped(0)
    (answer,) = admit(ledger, 1)
    ledger.set_pod(pod_of(answer, 0, reservation=None))
    assert [many.pods for many in ledger._recent.every()] == [1]
    ledger.set_pod(pod_of(answer, 1))
    assert not list(ledger._recent.every())


def test_a_pod_of_another_place_or_namespace_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.recent_placements.MAX_NAMES", 0)
    ledger = capped(0)
    (answer,) = admit(ledger, 1)
    other = "n7" if answer.node != "n7" else "n8"
    for number, changes in enumerate(({"namespace": "x"}, {"promised_node": other}, {"pooled": 1})):
        ledger.set_pod(pod_of(answer, number, **changes))
    ledger.set_pod(pod_of(answer, 9, reservation="r"))
    assert [many.pods for many in ledger._recent.every()] == [1]


def test_many_namespaces_and_labels_keep_no_more_than_is_bounded() -> None:
    ledger = Ledger(reservations_per_namespace=0)
    ledger.set_node(gpu_node("a", 1))
    for number in range(MAX_KINDS + 100):
        ledger.place(eighths(1, namespace=f"n{number}", reservation=f"r{number}"), 0.0)
    for number in range(100):
        ledger.place(eighths(1, queues=(f"q{number}",), reservation=f"q{number}"), 0.0)
    assert len(list(ledger._recent.every())) == MAX_KINDS


def test_pods_without_a_quota_do_not_make_quotas_forget_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.recent_placements.MAX_KINDS", 8)
    ledger = capped(0)
    for number in range(20):
        keeps = Placement((number,), 81920, (str(81920 + number),), None)
        ledger.place(eighths(1, namespace="other", reservation=f"o{number}", existing=keeps), 0.0)
    quotas = (Quota("namespace", "team", slices=3),)
    answers = [
        ledger.place(eighths(1, namespace="team", reservation=f"r{number}", quotas=quotas), 0.0)
        for number in range(9)
    ]
    assert [isinstance(answer, OverQuota) for answer in answers] == [False] * 3 + [True] * 6
    assert len(list(ledger._recent.every())) <= 8 + 3


def test_all_namespaces_together_hold_a_bounded_number_of_reservations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ledger.reservations.MAX_RESERVATIONS", 5)
    ledger = capped()
    answers = [ledger.place(eighths(1, namespace=f"n{n}", reservation=f"r{n}"), 0.0) for n in range(9)]
    assert all(isinstance(answer, Placement) for answer in answers)
    assert ledger.reservations == 5
