"""Quotas count what runs, what is pending and what is promised, by namespace and by queue."""

from typing import Any

import pytest

from ledger.placement_request import OverQuota, Placement, PlacementRequest, Quota
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of
from tests.ledger.snapshot import books

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


def test_a_queue_is_counted_once_by_its_name_its_id_or_both_across_namespaces() -> None:
    pods = (
        holder("p", "a", (0, 1), namespace="red", queues=("training", "#id-1")),
        holder("q", "a", (0, 1), namespace="blue", queues=("training",)),
        holder("r", "a", (0, 1), namespace="blue", queues=("#id-1",)),
        holder("s", "a", (0, 1), namespace="blue", queues=("other", "#id-2")),
        holder("cpu", "a", namespace="blue", queues=("training",)),
        holder("done", "a", (0, 1), queues=("training",), is_over=True),
    )
    ledger = ledger_of(gpu_node("a"), holders=pods)
    quota = Quota("queue", "training", max_pods=3, keys=("training", "#id-1"))
    assert ledger.place(eighths(1, quotas=(quota,)), 0.0) == OverQuota(quota, 3, 1, 3, "pods")
    assert ledger.place(eighths(1, quotas=(QUEUE,)), 0.0) == OverQuota(QUEUE, 2, 1, 2, "pods")
    ledger.remove_pod(("red", "p"))
    assert isinstance(ledger.place(eighths(1, quotas=(quota, QUEUE)), 0.0), Placement)


@pytest.mark.parametrize(
    ("namespaces", "others", "used"),
    [(None, (), 4), (("red",), (), 1), (("red", "blue", "none"), (), 3), (None, ("red",), 3), ((), (), 0)],
)
def test_a_queue_is_counted_in_the_namespaces_that_it_serves(
    namespaces: tuple[str, ...] | None, others: tuple[str, ...], used: int
) -> None:
    spaces = ["red", "blue", "blue", "green"]
    pods = [
        holder(f"p{number}", "a", (0, 1), namespace=space, queues=("q", "#i"))
        for number, space in enumerate(spaces)
    ]
    ledger = ledger_of(gpu_node("a"), holders=tuple(pods))
    quota = Quota("queue", "q", slices=used, keys=("q", "#i"), namespaces=namespaces, other_namespaces=others)
    assert ledger.place(eighths(1, quotas=(quota,)), 0.0) == OverQuota(quota, used, 1, used, "slices")


def test_quotas_stop_counting_a_reservation_whose_pod_does_not_show_up() -> None:
    ledger = ledger_of(gpu_node("a"))
    asked = {"namespace": "red", "quotas": (RED,)}
    ledger.place(eighths(8, **asked, reservation="refused"), 0.0)
    assert isinstance(ledger.place(eighths(1, **asked), 4.9), OverQuota)
    assert isinstance(ledger.place(eighths(8, **asked), 5.0), Placement)


A = Quota("namespace", "a", slices=4)


def again(slices: int = 4, index: int = 0, kept: str | None = "uid", **changes: object) -> PlacementRequest:
    brings = Placement((index,), 81920, ("81920",), reservation=kept)
    known = {"namespace": "a", "pod": "p", "reservation": "again", "quotas": (A,)}
    return eighths(slices, existing=brings, **(known | changes))


@pytest.mark.parametrize(
    "changes", [{"namespace": "b"}, {"slices": 3}, {"index": 1}, {"kept": None}, {"pod": "other"}]
)
def test_only_the_pods_own_reservation_spares_it_from_being_counted_twice(changes: dict[str, Any]) -> None:
    ledger = ledger_of(gpu_node("n"))
    ledger.place(eighths(4, reservation="uid", namespace="a", pod="p"), 0.0)
    before = books(ledger)
    assert isinstance(ledger.place(again(**changes), 0.0), OverQuota)
    assert ledger.place(again(), 0.0) == again().demands.existing
    assert books(ledger) == before


def test_a_reservation_matches_once_and_for_the_same_review_again() -> None:
    ledger = ledger_of(gpu_node("n"))
    ledger.place(eighths(4, reservation="uid", namespace="a", pod="p"), 0.0)
    dry_run = again(reservation=None)
    for request in (dry_run, dry_run, again(), again()):
        assert ledger.place(request, 0.0) == request.demands.existing
    for request in (again(reservation="third"), dry_run):
        assert isinstance(ledger.place(request, 0.0), OverQuota)


def test_a_kept_placement_takes_a_reservation_like_any_other() -> None:
    ledger = ledger_of(gpu_node("n"))
    restarted = ledger.place(again(kept="uid"), 0.0)
    assert restarted == again(kept="uid").demands.existing, (
        "the name is free, so the annotation stays as it is"
    )
    assert isinstance(ledger.place(again(kept="uid", pod="copy", reservation="x"), 0.0), OverQuota)
