"""What the denial of a pod without a placement says."""

from __future__ import annotations

from ledger.placement_request import Unschedulable
from webhook.admission.denial import Reason
from webhook.decision import deny_unplaced


def test_a_pod_that_no_node_can_hold_at_this_moment_does_not_read_that_none_ever_could() -> None:
    denial = deny_unplaced(Unschedulable("no GPU has 4 free slices", is_for_now=True))
    assert (denial.reason, denial.message) == (Reason.NO_PIECE, "no GPU has 4 free slices")
