"""Many pods that are placed before any shows up are spread and counted, and nothing of them stays."""

import pytest

from ledger.ledger import Ledger
from ledger.placement_request import Placement, Quota
from tests.ledger.cluster import eighths, gpu_node
from tests.ledger.snapshot import books


def cluster(most_reservations: int) -> Ledger:
    ledger = Ledger(most_reservations)
    for number in range(40):
        ledger.set_node(gpu_node(f"n{number}", 4))
    return ledger


def test_of_too_many_reservations_the_latest_are_kept() -> None:
    ledger = cluster(5)
    before = books(ledger)
    answers = [ledger.place(eighths(1, namespace=f"n{n}", reservation=f"r{n}"), n / 10) for n in range(9)]
    assert all(isinstance(answer, Placement) for answer in answers)
    assert [ledger.is_reserved(f"r{n}") for n in range(9)] == [False] * 4 + [True] * 5
    ledger.place(eighths(1, reservation="late"), 7.0)  # the others have ended
    assert ledger.reservations == 1
    ledger.expire(60.0)
    assert books(ledger) == before


@pytest.mark.parametrize("quotas", [(), (Quota("queue", "q", slices=10_000),)], ids=["plain", "quota"])
def test_a_namespace_with_too_many_reservations_ends_only_its_own(quotas) -> None:
    ledger = cluster(12)
    for name in ("a", "b"):
        ledger.place(eighths(1, namespace=name, reservation=name, quotas=quotas), 0.0)
    for number in range(60):
        ledger.place(eighths(1, namespace="flood", reservation=f"f{number}", quotas=quotas), 0.0)
    assert [ledger.is_reserved(name) for name in "ab"] == [True, True]
    assert [ledger.is_reserved(f"f{number}") for number in range(49, 60)] == [False] + [True] * 10
    ledger.place(eighths(1, namespace="c", reservation="c", quotas=quotas), 0.0)
    assert ledger.is_reserved("c")
    assert ledger.reservations == 12


def test_reservations_without_a_quota_end_none_with_one_even_of_their_own_namespace() -> None:
    ledger, quota = cluster(4), Quota("namespace", "team", slices=99)
    ledger.place(eighths(1, namespace="team", reservation="counted", quotas=(quota,)), 0.0)
    for number in range(9):
        ledger.place(eighths(1, namespace="team", reservation=f"r{number}"), 0.0)
    assert ledger.is_reserved("counted")
    assert ledger.reservations == 4 + 1, "each have their own bound"
