"""What a standalone webhook's page shows: promises as they are made, and denials of the last hour."""

from datetime import UTC, datetime
from types import SimpleNamespace

from ledger.messages import DenialCount
from ledger.placement_request import Placement
from tests.controller.watch.test_ledger_store import Clock
from web.source import AdmittedPod
from webhook import page
from webhook.admission.denial import Denial, Reason
from webhook.admission.mutate import Injection
from webhook.decision import Outcome
from webhook.page import AdmittedPods, RecentDenials

REAL, DRY_RUN = (
    SimpleNamespace(namespace="team", dry_run=dry_run, object_key=lambda: "x") for dry_run in (False, True)
)


INJECTION = Injection(b"[]", "main", 4, Placement((0,), 81920, ("a",)), 40960, "0")


def admitted_as(uid, *, dry_run=False):
    return SimpleNamespace(uid=uid, namespace="team", dry_run=dry_run, pod_name=lambda: f"pod-{uid}")


def denied(reason):
    return Outcome.of(Denial.of(reason, "why"), None)


def test_denials_are_counted_by_reason_and_namespace_and_nothing_else_is():
    clock = Clock()
    recent = RecentDenials(clock)
    recent(REAL, denied(Reason.LABEL), 0.0)
    recent(REAL, Outcome(Reason.INJECTED), 0.0)
    recent(DRY_RUN, denied(Reason.OVER_QUOTA), 0.0)
    for _ in range(2):
        recent(REAL, denied(Reason.MEMORY), 0.0)
    assert recent.of_last_hour() == [
        DenialCount("memory-too-small", "team", 1, "why"),
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
