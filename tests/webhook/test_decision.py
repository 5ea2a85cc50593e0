"""What the denial of a pod without a placement says."""

from __future__ import annotations

import pytest

from ledger.placement.label_index import Work
from ledger.placement_request import Unschedulable
from webhook.admission.denial import MESSAGE_LIMIT, Reason
from webhook.decision import deny_unplaced


@pytest.mark.parametrize("nodes", [0, 10**9])
def test_a_pod_that_demands_too_much_of_its_node_learns_what_to_write_instead(nodes: int) -> None:
    work = Work(nodes)
    denial = deny_unplaced(work.refusal())
    assert denial.reason is Reason.MANY_DEMANDS
    assert denial.message == (
        f"the pod cannot be placed: its demands on nodes take more than {work.most} comparisons with the"
        " cluster's nodes: use fewer terms, expressions and tolerations"
    )
    assert len(denial.message) <= MESSAGE_LIMIT


def test_a_pod_that_no_node_can_hold_at_this_moment_does_not_read_that_none_ever_could() -> None:
    denial = deny_unplaced(Unschedulable("no GPU has 4 free slices", is_for_now=True))
    assert (denial.reason, denial.message) == (Reason.NO_PIECE, "no GPU has 4 free slices")
