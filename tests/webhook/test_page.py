"""What a standalone webhook's page shows: promises as they are made, and denials of the last hour."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from kube.names import MAX_NAME
from ledger.messages import DenialCount
from ledger.placement_request import Placement
from modes.fraction import Fraction
from tests.controller.watch.test_ledger_store import Clock
from tests.ledger.cluster import request_of
from tests.web.asking import Source
from web.source import AdmittedPod, LocalSource
from webhook import page
from webhook.admission.denial import Denial, Reason
from webhook.admission.mutate import Injection
from webhook.decision import Outcome
from webhook.page import AdmittedPods, RecentDenials

REAL, DRY_RUN = (SimpleNamespace(namespace="team", dry_run=dry_run) for dry_run in (False, True))


INJECTION = Injection(b"[]", "main", 4, Placement((0,), 81920, ("a",)), 40960, "0")


def admitted_as(uid, *, dry_run=False):
    return SimpleNamespace(uid=uid, namespace="team", dry_run=dry_run, pod_name=lambda: f"pod-{uid}")


def denied(reason):
    return Outcome.of(Denial.of(reason, "why"), None)


def test_each_promise_reaches_every_reader():
    ledger = Source("a", "b").ledger
    source = LocalSource(ledger)

    async def main():
        one, other = source.subscribe(), source.subscribe()
        assert one.take() == other.take() == ["a", "b"]
        placed = ledger.place(request_of(Fraction(4, 8), reservation="r"), now=0.0)
        reported = one.take(), other.take()
        source.unsubscribe(other)
        ledger.release("r")
        return placed.node, reported, one.take(), other.take()

    node, reported, after, unsubscribed = asyncio.run(main())
    assert (reported, after, unsubscribed) == (([node], [node]), [node], [])


def test_denials_are_counted_by_reason_and_namespace_and_nothing_else_is():
    clock = Clock()
    recent = RecentDenials(clock)
    recent(REAL, denied(Reason.LABEL), 0.0)
    recent(REAL, Outcome(Reason.INJECTED), 0.0)
    recent(DRY_RUN, denied(Reason.OVER_QUOTA), 0.0)
    for _ in range(2):
        recent(REAL, denied(Reason.MEMORY), 0.0)
    assert recent.of_last_hour() == [
        DenialCount("memory-too-small", "team", 2, "why"),
        DenialCount("label-not-allowed", "team", 1, "why"),
    ]


def test_admitted_pods_are_known_by_their_reservation_and_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(page, "MAX_RESERVATIONS", 2)
    admitted = AdmittedPods(lambda: datetime(2026, 1, 2, 3, 4, 5, 678, UTC))
    injected = Outcome(Reason.INJECTED, b"[]", injection=INJECTION)
    for uid in ("first", "second", "third"):
        admitted(admitted_as(uid), injected, 0.0)
    assert admitted.of("third") == AdmittedPod("pod-third", "2026-01-02T03:04:05+00:00")
    assert (admitted.of("second").name, admitted.of("first"), admitted.of("?")) == (
        "pod-second",
        AdmittedPod(),
        AdmittedPod(),
    )


@pytest.mark.parametrize(
    ("dry_run", "outcome"),
    [
        (True, Outcome(Reason.INJECTED, b"[]", injection=INJECTION)),
        (False, Outcome(Reason.UNCHANGED, injection=INJECTION)),
        (False, denied(Reason.LABEL)),
        (False, Outcome(Reason.NOT_LABELLED)),
    ],
    ids=["a dry run", "a pod that has all", "a denial", "another pod"],
)
def test_only_pods_that_got_a_share_are_admitted(dry_run, outcome):
    admitted = AdmittedPods()
    admitted(admitted_as("a", dry_run=dry_run), outcome, 0.0)
    assert admitted.of("a") == AdmittedPod()


def test_of_a_long_name_as_much_is_kept_as_a_name_may_have():
    admitted = AdmittedPods()
    admitted(admitted_as("x" * 400), Outcome(Reason.INJECTED, b"[]", injection=INJECTION), 0.0)
    assert admitted.of("x" * 400).name == f"pod-{'x' * 400}"[:MAX_NAME]
