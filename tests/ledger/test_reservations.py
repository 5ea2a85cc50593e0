"""A place is promised at admission and becomes its pod's, once."""

import pytest

from ledger.ledger import Ledger
from ledger.placement_request import Placement
from ledger.view import Holding, PendingView
from modes.units import POOL
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, placed


def shares(ledger: Ledger, node: str = "a", index: int = 0) -> tuple[Holding, ...]:
    view = ledger.node(node)
    assert view is not None
    return view.gpus[index].shares


def test_a_reservation_counts_like_a_holder_and_names_itself() -> None:
    ledger = ledger_of(gpu_node("a", 1))
    assert ledger.place(eighths(5, namespace="ml", reservation="r"), 0.0) == Placement(
        (0,), 81920, ("81920",), "a", "r"
    )
    assert shares(ledger) == (Holding("ml", "r", "reservation", 5),)
    second = placed(ledger, eighths(4, reservation="s"))
    assert second.node is None
    assert ledger.pending() == (PendingView("default", "s", "reservation", (0,), 4),)


def test_its_pod_takes_its_place_and_counts_once() -> None:
    ledger = ledger_of(gpu_node("a", 1))
    ledger.place(eighths(5, reservation="r"), 0.0)
    pending = holder("p", None, (0, 5), reservation="r", promised_node="a")
    ledger.set_pod(pending)
    assert shares(ledger) == (Holding("default", "p", "promised", 5),)
    ledger.set_pod(holder("p", "a", (0, 5), reservation="r"))
    assert shares(ledger) == (Holding("default", "p", "holder", 5),)
    ledger.remove_pod(("default", "p"))
    assert shares(ledger) == ()


@pytest.mark.parametrize(
    "copied",
    [
        {"namespace": "other"},
        {"takes": ((1, 5),)},
        {"takes": ((0, 4),)},
        {"takes": ((0, 5), (POOL, 5))},
        {"reservation": "s"},
    ],
)
def test_a_pod_that_only_copied_the_annotation_does_not_take_it(copied: dict[str, object]) -> None:
    ledger = ledger_of(gpu_node("a", 2))
    ledger.place(eighths(5, reservation="r"), 0.0)
    ledger.set_pod(holder("thief", "b", **{"takes": ((0, 5),), "reservation": "r"} | copied))
    assert ledger.is_reserved("r")


def test_it_ends_with_its_time_and_not_before() -> None:
    ledger = ledger_of(gpu_node("a", 1))
    ledger.place(eighths(8, reservation="r"), 100.0)
    ledger.expire(104.9)
    assert ledger.is_reserved("r")
    assert ledger.place(eighths(8, reservation="s"), 105.0) == Placement((0,), 81920, (), "a", "s")
    assert not ledger.is_reserved("r")


def test_it_stays_while_its_pod_may_exist_unreported() -> None:
    ledger = ledger_of(gpu_node("a", 1))
    ledger.place(eighths(8, reservation="r"), 100.0)
    ledger.expire(160.0, 104.9)
    assert ledger.totals().used == 8
    ledger.expire(160.0, 105.0)
    assert ledger.totals().used == 0


def test_what_a_lost_gpu_leaves_is_shown_as_over_and_not_hidden() -> None:
    ledger = ledger_of(gpu_node("a", 1), holders=(holder("p", "a", (0, 6)), holder("q", "a", (1, 4))))
    ledger.set_node(gpu_node("a", 1, gpus=((0, 4),)))
    view = ledger.node("a")
    assert view is not None
    assert [(gpu.index, gpu.capacity, gpu.used, gpu.free, gpu.over) for gpu in view.gpus] == [
        (0, 4, 6, 0, 2),
        (1, 0, 4, 0, 4),
    ]
    answer = placed(ledger, eighths(1))
    assert answer.node is None


def test_a_pod_that_is_known_already_takes_no_reservation_of_a_later_one() -> None:
    ledger = ledger_of(gpu_node("a", 1))
    ledger.place(eighths(1, reservation="r", pod="first"), 0.0)
    ledger.set_pod(holder("first", None, (0, 1), reservation="r"))
    brings = Placement((0,), 81920, ("81920",), reservation="r")
    copied = ledger.place(eighths(1, reservation="s", pod="copy", existing=brings), 0.0)
    assert copied == brings
    ledger.set_pod(holder("first", "a", (0, 1), reservation="r"))
    assert ledger.is_reserved("r")
    ledger.set_pod(holder("copy", "a", (0, 1), reservation="r"))
    assert not ledger.is_reserved("r")
