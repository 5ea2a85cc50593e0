"""The bench of decisions: its cluster is as full as it says, and stays so."""

from bench.decisions import FAR_MORE, LOAD, SCANNED, Churn, assert_same_choices, choosing
from bench.full_scan import PlainScan
from bench.packing.trace import synthetic
from ledger.ledger import Ledger
from ledger.placement.choice import Choice


def test_the_cluster_is_filled_with_bound_pods_and_stays_as_full():
    churn = Churn(Ledger(FAR_MORE), synthetic(nodes=20, pods=400), 20)
    totals = churn.ledger.totals()
    assert totals.used > 0.9 * LOAD * totals.capacity
    assert churn.ledger.reservations == 0
    held = len(churn._held)
    churn.decisions(100)
    assert len(churn._held) == held
    assert churn.ledger.totals().used > 0.75 * totals.used


def test_scans_of_all_nodes_choose_what_the_ledger_chooses(monkeypatch):
    trace = synthetic(nodes=20, pods=400)
    asked = []
    monkeypatch.setattr(PlainScan, "_score", _counted(PlainScan._score, asked))
    scan = choosing(PlainScan, trace, 20)
    assert not asked
    assert_same_choices(choosing(Choice, trace, 20), scan)
    assert len(asked) == SCANNED * 20


def _counted(score, asked):
    def counted(scan, account, request):
        asked.append(account.name)
        return score(scan, account, request)

    return counted
