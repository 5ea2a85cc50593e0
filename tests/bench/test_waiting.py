"""The bench of waiting: who waits for which GPU."""

import pytest

from bench.packing.arriving import Job, jobs
from bench.packing.waiting import Binding, Cluster


def fill(nodes):
    """Pods that hold the lower half of the GPUs for long, and the upper half for a tenth of that."""
    return [Job(f"p{number}", 0.0, 100.0 if number % 8 < 4 else 10.0, 8) for number in range(8 * nodes)]


def test_a_pod_with_an_index_waits_next_to_room():
    # Two pods wait on GPU 0 and 1, which stay taken when GPUs 4 to 7 become free.
    arriving = [*fill(1), Job("p8", 1.0, 1.0, 8), Job("p9", 2.0, 1.0, 8), Job("p10", 50.0, 1.0, 8)]
    tied = Cluster(1, Binding.INDEX)
    tied.run(arriving)
    assert (tied.waits["p8"], tied.waits["p9"]) == (99.0, 98.0)


def test_two_halves_take_two_gpus_where_the_scheduler_spreads_pods_over_nodes():
    halves = [Job(f"p{number}", 0.0, 10.0, 4) for number in range(2)]
    wholes = [Job(f"p{number}", 0.0, 10.0, 8) for number in range(2, 16)]
    waits = {}
    for binding in (Binding.FIRST_FIT, Binding.FULLEST, Binding.TIGHTEST, Binding.STEERED):
        cluster = Cluster(2, binding)
        cluster.run([*halves, *wholes, Job("p16", 1.0, 1.0, 8)])
        waits[binding] = cluster.waits["p16"]
    assert waits == dict.fromkeys(waits, 0.0) | {Binding.FIRST_FIT: 9.0}


@pytest.mark.parametrize("binding", Binding)
def test_everybody_starts_in_the_end_and_never_on_a_full_gpu(binding):
    arriving = jobs(2, 0, 10)
    cluster = Cluster(2, binding)
    cluster.run(arriving)
    assert len(cluster.waits) == len(arriving)
    assert min(cluster.waits.values()) == 0.0


def test_late_binding_waits_least():
    arriving = jobs(2, 0, 40)
    late, tied = [Cluster(2, binding).run(arriving).mean for binding in (Binding.LATE, Binding.INDEX)]
    assert late < tied
