"""Quotas count what runs, what is pending and what is promised, by namespace and by queue."""

from __future__ import annotations

import pytest

from ledger.ask import OverQuota, Placement, Quota
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of

RED = Quota("namespace", "red", slices=8)
QUEUE = Quota("queue", "training", max_pods=2)


def test_a_namespace_may_take_its_quota_to_the_last_slice() -> None:
    pods = (holder("p", "a", (0, 3), namespace="red"), holder("w", None, (0, 2), namespace="red"))
    ledger = ledger_of(gpu_node("a"), holders=pods)
    asked = {"namespace": "red", "quotas": (RED,)}
    assert isinstance(ledger.place(eighths(3, **asked, reservation="r"), 0.0), Placement)
    assert ledger.place(eighths(1, **asked), 0.0) == OverQuota(RED, used=8, asked=1, limit=8, unit="slices")
    ledger.release("r")
    assert isinstance(ledger.place(eighths(1, **asked), 0.0), Placement)


def test_a_queue_is_counted_by_its_name_or_id_across_namespaces() -> None:
    pods = (
        holder("p", "a", (0, 1), namespace="red", queues=("training", "id-1")),
        holder("q", "a", (0, 1), namespace="blue", queues=("training",)),
        holder("cpu", "a", namespace="blue", queues=("training",)),
        holder("done", "a", (0, 1), queues=("training",), is_over=True),
    )
    ledger = ledger_of(gpu_node("a"), holders=pods)
    over = OverQuota(QUEUE, used=2, asked=1, limit=2, unit="pods")
    assert ledger.place(eighths(1, queue="training", quotas=(QUEUE,)), 0.0) == over
    by_id = Quota("queue", "id-1", max_pods=2)
    assert isinstance(ledger.place(eighths(1, queue="id-1", quotas=(by_id,)), 0.0), Placement)


def test_a_reservation_counts_under_every_queue_name_that_it_was_checked_for() -> None:
    ledger = ledger_of(gpu_node("a"))
    by_id = Quota("queue", "id-1", max_pods=1)
    assert isinstance(
        ledger.place(eighths(1, queue="training", quotas=(by_id,), reservation="r"), 0.0), Placement
    )
    assert ledger.place(eighths(1, queue="x", quotas=(by_id,)), 0.0) == OverQuota(by_id, 1, 1, 1, "pods")
    one = Quota("queue", "training", max_pods=1)
    assert ledger.place(eighths(1, quotas=(one,)), 0.0) == OverQuota(one, 1, 1, 1, "pods")


def test_a_second_ask_for_the_same_reservation_does_not_pass_its_own_quota() -> None:
    ledger = ledger_of(gpu_node("a"))
    for _ in range(3):
        answer = ledger.place(eighths(8, namespace="red", quotas=(RED,), reservation="r"), 0.0)
        assert isinstance(answer, Placement)


@pytest.mark.parametrize(
    ("kept", "namespace", "slices", "answer"),
    [
        ("uid", "a", 4, Placement),
        ("uid", "b", 4, OverQuota),
        ("uid", "a", 3, OverQuota),
        ("other", "a", 4, OverQuota),
    ],
)
def test_only_the_pods_own_reservation_spares_it_from_being_counted_twice(
    kept: str, namespace: str, slices: int, answer: type
) -> None:
    ledger = ledger_of(gpu_node("n"))
    ledger.place(eighths(4, reservation="uid", namespace="a"), 0.0)
    quota = Quota("namespace", "a", slices=4)
    ask = eighths(slices, namespace=namespace, kept=kept, quotas=(quota,))
    assert isinstance(ledger.place(ask, 0.0), answer)
