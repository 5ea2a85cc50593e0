"""The bench of decisions: its cluster is as full as it says, and stays so."""

from bench.decisions import LOAD, Churn
from bench.packing.trace import synthetic


def test_the_cluster_is_filled_and_stays_as_full():
    churn = Churn(synthetic(nodes=20, pods=400), 20)
    totals = churn.ledger.totals()
    assert totals.used > 0.9 * LOAD * totals.capacity
    held = len(churn._held)
    churn.decisions(100)
    assert len(churn._held) == held
    assert churn.ledger.totals().used > 0.75 * totals.used
