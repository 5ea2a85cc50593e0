"""Slices that wait, added and removed in any order."""

from ledger.placement.pending import PendingPods
from tests.ledger.cluster import holder


def test_a_claim_that_waits_for_no_slices_leaves_those_of_others_as_they_are():
    """Such as a kept placement that names neither a GPU nor the pool."""
    pending = PendingPods()
    waits, empty = holder("waits", None, (0, 4)), holder("empty", None)
    pending.add(empty.key, empty)
    pending.add(waits.key, waits)
    pending.remove(waits.key)
    assert pending._slices == {}
    pending.remove(empty.key)
    assert (pending.claims, pending._slices) == ({}, {})
