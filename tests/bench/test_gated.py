"""The bench of gated pods: what an index from admission costs a pod that waited for a quota."""

import pytest

from bench.packing.arriving import Job, empty_ledger, jobs
from bench.packing.gated import Cluster

LONG, SHORT = 100.0, 20.0


def arriving(long_first):
    """Pods on all eight GPUs, those of the team short; and one that waits for the team's quota."""
    team = [Job(f"p{2 * number}", 0.0, SHORT, 8) for number in range(4)]
    others = [Job(f"p{2 * number + 1}", 0.0, LONG, 8) for number in range(4)]
    return [*(others + team if long_first else team + others), Job("p8", 12.0, 1.0, 8)]


@pytest.mark.parametrize(("long_first", "blocked", "wait"), [(True, 1, LONG - SHORT), (False, 0, 0.0)])
def test_a_pod_whose_index_has_no_room_when_it_goes_waits_on(long_first, blocked, wait):
    early = Cluster(empty_ledger(1), late=False).run(arriving(long_first))
    assert (early.pods, early.blocked, early.fuller, early.waits) == (1, blocked, blocked, [wait])


@pytest.mark.parametrize("long_first", [True, False])
def test_a_pod_that_gets_its_index_when_it_goes_takes_the_gpu_that_is_free(long_first):
    late = Cluster(empty_ledger(1), late=True).run(arriving(long_first))
    assert late.waits == [0.0]


def test_every_pod_that_waited_starts_in_the_end():
    for late in (False, True):
        seen = Cluster(empty_ledger(2), late=late).run(jobs(2, 0, 20))
        assert seen.pods == len(seen.waits) > 100
