"""What a standalone webhook's page shows: promises as they are made, and denials of the last hour."""

from datetime import UTC, datetime
from types import SimpleNamespace

from ledger.messages import DenialCount
from ledger.placement_request import Placement
from web.source import AdmittedPod
from webhook import page
from webhook.admission.denial import Denial, Reason
from webhook.admission.mutate import Injection
from webhook.decision import Outcome
from webhook.page import AdmittedPods, RecentDenials

INJECTION = Injection(b"[]", "main", 4, Placement((0,), 81920, ("a",)), 40960, "0")


def request(uid="x", *, dry_run=False):
    return SimpleNamespace(
        uid=uid,
        namespace="team",
        dry_run=dry_run,
        object_key=lambda: uid,
        pod_name=lambda: f"pod-{uid}",
    )


def test_denials_are_counted_and_nothing_else_is():
    recent = RecentDenials(lambda: 0.0)
    denied = Outcome.of(Denial.of(Reason.MEMORY, "why"), None)
    for _ in range(2):
        recent(request(), denied, 0.0)
    recent(request("y"), Outcome(Reason.INJECTED), 0.0)
    recent(request("z", dry_run=True), denied, 0.0)
    assert recent.of_last_hour() == [DenialCount("memory-too-small", "team", 1, "why")]


def test_admitted_pods_are_known_by_their_reservation_and_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(page, "MAX_RESERVATIONS", 2)
    admitted = AdmittedPods(lambda: datetime(2026, 1, 2, 3, 4, 5, 678, UTC))
    injected = Outcome(Reason.INJECTED, b"[]", injection=INJECTION)
    for uid in ("first", "second", "third"):
        admitted(request(uid), injected, 0.0)
    assert admitted.of("third") == AdmittedPod("pod-third", "2026-01-02T03:04:05+00:00")
    assert admitted.of("second").name == "pod-second"
    assert admitted.of("first") == admitted.of("?") == AdmittedPod()
