"""A short campaign against the controller, and proof that it sees defects."""

import re

import pytest

from cluster.informer import Watcher
from controller.geometry.division import Room
from ledger.ledger import Ledger
from ledger.quota_usage import QuotaUsage
from ledger.reservations import Reservations
from tests.long.campaign.controller import epoch
from tests.long.campaign.controller.campaign import run


def test_a_short_campaign_against_the_controller_finds_nothing():
    tally, findings = run(6000, seed=11)
    assert findings == []
    happened = {name for name, _ in epoch.HAPPENINGS} | {"page", "plan"}
    assert happened <= tally.counts.keys()
    assert {"placement", "misfit", "over_quota", "refused"} <= tally.counts.keys()


def _forgets_no_pod(monkeypatch):
    monkeypatch.setattr(Ledger, "remove_pod", lambda _self, _key: None)


def _counts_no_quota(monkeypatch):
    monkeypatch.setattr(QuotaUsage, "passed_by", lambda *_: None)


def _takes_nothing(monkeypatch):
    monkeypatch.setattr(Ledger, "_add_claim", lambda *_: None)
    monkeypatch.setattr(Ledger, "_remove_claim", lambda *_: None)


def _keeps_what_was_deleted(monkeypatch):
    take = Watcher._take
    monkeypatch.setattr(
        Watcher, "_take", lambda self, line: None if b'"DELETED"' in line else take(self, line)
    )


def _never_ends_a_reservation(monkeypatch):
    monkeypatch.setattr(Reservations, "first_expired", lambda *_: None)


def _divides_cards_in_use(monkeypatch):
    monkeypatch.setattr(
        Room, "open_cards", lambda room, **_: {names: [at] for at, names in enumerate(room.node.division)}
    )


DEFECTS = {
    _forgets_no_pod: "not the one made of lists",
    _counts_no_quota: "held,",
    _takes_nothing: "slices",
    _keeps_what_was_deleted: "not those of the API server",
    _never_ends_a_reservation: "is left",
    _divides_cards_in_use: "in use",
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_campaign_finds(defect, monkeypatch):
    defect(monkeypatch)
    _, findings = run(20_000, seed=1, most_findings=3)
    assert any(re.search(DEFECTS[defect], each) for each in findings), findings
