"""The bench of waiting: what replacing pods that wait on their index does."""

from bench.packing.arriving import Job, empty_ledger, jobs
from bench.packing.waiting import Cluster
from controller.replace.replacement_pace import ReplacementPlan


def fill(nodes):
    """Pods that hold the lower half of the GPUs for long, and the upper half for a tenth of that."""
    return [Job(f"p{number}", 0.0, 100.0 if number % 8 < 4 else 10.0, 8) for number in range(8 * nodes)]


def test_a_pod_that_waits_next_to_room_gets_it_only_where_waiting_pods_are_replaced():
    # Two pods wait on GPU 0 and 1, which stay taken when GPUs 4 to 7 become free.
    arriving = [*fill(1), Job("p8", 1.0, 1.0, 8), Job("p9", 2.0, 1.0, 8), Job("p10", 50.0, 1.0, 8)]
    tied = Cluster(empty_ledger(1), late=False)
    tied.run(arriving)
    replacing = Cluster(empty_ledger(1), late=False, plan=ReplacementPlan())
    replacing.run(arriving)
    assert (tied.waits["p8"], tied.waits["p9"]) == (99.0, 98.0)
    # One at a time, and first whose namespace nobody has looked at yet.
    assert (replacing.waits["p8"], replacing.waits["p9"]) == (10.0, 8.0)
    assert replacing.replaced == 2


def test_everybody_starts_in_the_end_and_late_binding_waits_least():
    arriving = jobs(2, 0, 40)
    clusters = [
        Cluster(empty_ledger(2), late=False),
        Cluster(empty_ledger(2), late=False, plan=ReplacementPlan()),
        Cluster(empty_ledger(2), late=True),
    ]
    tied, replacing, late = [cluster.run(arriving) for cluster in clusters]
    assert all(len(cluster.waits) == len(arriving) for cluster in clusters)
    assert late <= replacing < tied
